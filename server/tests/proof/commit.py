"""Connections cut inside a commit or its reply: under every key one intent, and no answer that names another."""

import asyncio
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import httpx

from openbell_server.devtools.local_platform import LocalPlatform
from proof.figures import Figures
from support.environment.commit_proxy import CommitProxy, Cut
from support.rest.rest_api import create_body

ROUNDS = {"full": 10, "gate": 1}
CUTS_PER_ROUND = 20
# A silent connection is given up after five seconds, and its cancellation after as many.
ANSWER_SECONDS = 120
# The server of a silent client keeps the account for up to ten seconds.
RETRY_SECONDS = 60
PAUSE_SECONDS = 0.1
_NAMED = re.compile(r"intent ([0-9a-f-]{36});")


def cuts_of(number: int) -> Iterator[Cut]:
    """A round: every place, each time at another byte, counted from the front and from the back."""
    inside = (1 + number, -1 - number)
    # First, since the others are made while these are waited for.
    yield Cut("commit", 0, silent=True)
    yield Cut("reply", 0, silent=True)
    for stop in (0, 0, *inside, None, None, None):
        yield Cut("commit", stop)
    for stop in (0, 0, 0, *inside, None):
        yield Cut("reply", stop)
    for stop in (0, None):
        yield Cut("commit", stop, alone=True)
    for stop in (0, 0, -1 - number):
        yield Cut("reply", stop, alone=True)


@dataclass
class Asked:
    """One key: what was answered to it, in order."""

    key: str
    url: str
    answers: list[httpx.Response | None] = field(default_factory=list)

    def accepted(self) -> list[str]:
        """The intents that were answered as recorded."""
        return [answer.json()["intent_id"] for answer in self.answers if answer and answer.status_code == 202]

    def unknown(self) -> list[str]:
        """The intents that were answered as unknown."""
        problems = [answer.json() for answer in self.answers if answer and answer.status_code == 503]
        found = [_NAMED.search(body["detail"]) for body in problems if body["code"] == "outcome_unknown"]
        return [match[1] if match else "none named" for match in found]


def prove(figures: Figures) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalPlatform(Path(folder), accounts=CUTS_PER_ROUND) as platform,
    ):
        asyncio.run(_prove(figures, platform))


async def _prove(figures: Figures, platform: LocalPlatform) -> None:
    stack, environment = platform.stack, platform.client_environment()
    async with CommitProxy(stack.database_url("api")) as proxy:
        stack.stop("api")
        stack.start("api", {"OPENBELL_DATABASE_URL": proxy.url})
        # In a thread: the proxy runs in this one, and nobody is ready before it has passed something on.
        await asyncio.to_thread(stack.wait_ready, "api")
        headers = {"x-api-key": environment["OPENBELL_API_KEY"]}
        async with httpx.AsyncClient(
            base_url=environment["OPENBELL_URL"], headers=headers, timeout=ANSWER_SECONDS, trust_env=False
        ) as client:
            asked = []
            for number in range(ROUNDS[figures.size]):
                asked += await _round(platform, proxy, client, number)
        await asyncio.to_thread(stack.stop, "api")
    await _judge(figures, platform, proxy, asked)


async def _round(platform: LocalPlatform, proxy: CommitProxy, client: httpx.AsyncClient, number: int) -> list[Asked]:
    asked, silent = [], []
    for account_id, cut in zip(platform.seeded.account_ids, cuts_of(number), strict=True):
        one = Asked(f"{number}-{account_id}", f"/v1/accounts/{account_id}/intents")
        asked.append(one)
        made = proxy.arm(cut)
        asking = asyncio.ensure_future(_ask(client, one))
        await asyncio.wait_for(made.wait(), ANSWER_SECONDS)
        if cut.silent:
            silent.append(asking)
            continue
        await asking
        proxy.admit()
        await _ask_until_accepted(client, one)
    await asyncio.gather(*silent)
    for one in asked[: len(silent)]:
        await _ask_until_accepted(client, one)
    return asked


async def _ask(client: httpx.AsyncClient, one: Asked) -> None:
    # The reference is written with the intent, so that intents are counted without asking the table of keys.
    body = {**create_body(), "client_reference_id": one.key}
    try:
        one.answers.append(await client.post(one.url, json=body, headers={"idempotency-key": one.key}))
    except httpx.TransportError:
        one.answers.append(None)


async def _ask_until_accepted(client: httpx.AsyncClient, one: Asked) -> None:
    """Retry at least once, also after a good answer: it must say the same again."""
    deadline = asyncio.get_running_loop().time() + RETRY_SECONDS
    while asyncio.get_running_loop().time() < deadline:
        await _ask(client, one)
        last = one.answers[-1]
        if last and last.status_code == 202:
            return
        await asyncio.sleep(PAUSE_SECONDS)


async def _judge(figures: Figures, platform: LocalPlatform, proxy: CommitProxy, asked: list[Asked]) -> None:
    connection = await asyncpg.connect(platform.services.postgres.url("openbell"), timeout=60)
    try:
        rows = await connection.fetch(
            "select client_reference_id as key, intent_id::text from openbell.intent_actions where seq = 1"
        )
    finally:
        await connection.close()
    recorded: dict[str, list[str]] = {one.key: [] for one in asked}
    for row in rows:
        recorded[row["key"]].append(row["intent_id"])
    intents = {row["intent_id"] for row in rows}
    figures.exactly("cuts made", proxy.made.total(), ROUNDS[figures.size] * CUTS_PER_ROUND)
    for kind, count in sorted(proxy.made.items()):
        figures.shown(f"cuts {kind}", count)
    answers = Counter(_in_words(answer) for one in asked for answer in one.answers)
    for words, count in sorted(answers.items()):
        figures.shown(f"answers {words}", count)
    honest = sum(answers[words] for words in ("202", "202 replayed", "503 outcome_unknown", "503 unavailable"))
    figures.exactly("requests without a correct answer", answers.total() - honest, 0)
    figures.exactly("keys with no intent", sum(not found for found in recorded.values()), 0)
    figures.exactly("keys with more than one intent", sum(len(found) > 1 for found in recorded.values()), 0)
    accepted = [(one, intent) for one in asked for intent in one.accepted()]
    wrong = sum([intent] != recorded[one.key] for one, intent in accepted)
    figures.exactly("accepted answers that named another intent than the one recorded", wrong, 0)
    missing = sum(intent not in intents for _, intent in accepted)
    figures.exactly("accepted answers whose intent is missing", missing, 0)
    unknown = [(one, intent) for one in asked for intent in one.unknown()]
    figures.shown("unknown answers whose intent was recorded", sum(intent in intents for _, intent in unknown))
    wrong = sum(intent in intents and one.accepted()[-1:] != [intent] for one, intent in unknown)
    figures.exactly("unknown answers whose intent was recorded and a retry named another", wrong, 0)


def _in_words(answer: httpx.Response | None) -> str:
    if answer is None:
        return "lost"
    if answer.status_code == 202:
        return "202 replayed" if "idempotency-replayed" in answer.headers else "202"
    return f"{answer.status_code} {answer.json()['code']}"
