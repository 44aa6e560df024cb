"""Credentials and accounts change under load: each change reaches the executor that has the account, which never stops.

An order goes to the broker with the key that its account has when its door opens, and no door opens for a new one on an
account that is disabled. The broker's own ledger says which key came with which command.
"""

import asyncio
import contextlib
import itertools
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import httpx

from openbell import AsyncClient, Conflict
from openbell_server.adapters.postgres.connection import open_pool
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.domain.identifiers import ActionId, client_order_id
from proof.figures import Figures
from proof.load import clients, submit_mixed
from support.builders.tenant import a_key

EXECUTORS = ("executor", "executor-2")
ACCOUNTS = 8
LOAD_CLIENTS = 4
# Intents a second over all accounts.
RATE = 20
ARRIVE_SECONDS = 120
DISABLED_SECONDS = 0.4
POLL_SECONDS = 0.01
VERIFY_TRIES = 5
# What the paper broker says of keys by their spelling, one after the other on one account.
SPELT = (
    ("ACCT-DU77", "VALID"),
    ("WRONG", "INVALID"),
    ("EXPIRED", "EXPIRED"),
    ("ACCT-DU78", "external_account_mismatch"),
    ("ACCT-DU77-again", "VALID"),
)


@dataclass(frozen=True, slots=True)
class Size:
    """How many changes."""

    credentials: int
    disables: int


SIZES = {"full": Size(credentials=200, disables=40), "gate": Size(credentials=20, disables=4)}


@dataclass(frozen=True, slots=True)
class Put:
    """A credential that was set, and when the caller had its answer."""

    account_id: str
    key_id: str
    answered_at: datetime


@dataclass(frozen=True, slots=True)
class Disabled:
    """How long an account was surely disabled: from one answer to the next request."""

    account_id: str
    since: datetime
    until: datetime


@dataclass
class Changes:
    """Makes changes over REST, and keeps when each was answered."""

    platform: LocalPlatform
    api: httpx.AsyncClient
    paper: httpx.AsyncClient
    puts: list[Put] = field(default_factory=list)
    disabled: list[Disabled] = field(default_factory=list)
    never_came: list[str] = field(default_factory=list)
    answers: Counter[int] = field(default_factory=Counter)

    async def change_credentials(self, account_id: str, numbers: Iterator[int], count: int) -> None:
        """One key after the other for an account, each once the last has come to the broker."""
        for number in numbers:
            if number >= count:
                return
            key_id = f"key-{number:04}"
            body = {"fields": {"key_id": key_id, "secret": f"secret-{number:04}"}}
            await self._call("PUT", f"/v1/accounts/{account_id}/credentials", body)
            self.puts.append(Put(account_id, key_id, datetime.now(UTC)))
            if not await self._came(account_id, key_id):
                self.never_came.append(key_id)

    async def disable(self, account_id: str) -> None:
        """Off and on again."""
        url = f"/v1/accounts/{account_id}"
        await self._call("PATCH", url, {"disabled": True, "disabled_reason": "a proof"})
        since = datetime.now(UTC)
        await asyncio.sleep(DISABLED_SECONDS)
        self.disabled.append(Disabled(account_id, since, datetime.now(UTC)))
        await self._call("PATCH", url, {"disabled": False})

    async def verified(self, account_id: str) -> str:
        """What the broker says of the credential when it is asked: a status, or the code of a problem."""
        for _ in range(VERIFY_TRIES):
            answer = (await self.api.post(f"/v1/accounts/{account_id}/credentials/verify")).json()
            # A machine with much else to do may take longer than a caller waits.
            if answer.get("code") != "verification_unanswered":
                break
        return str(answer.get("code") or answer["status"])

    async def answer_to(self, key_id: str) -> str:
        """What becomes of a key."""
        account_id = str(self.platform.seeded.account_ids[0])
        body = {"fields": {"key_id": key_id, "secret": "s"}}
        await self._call("PUT", f"/v1/accounts/{account_id}/credentials", body)
        return await self.verified(account_id)

    async def _call(self, method: str, url: str, body: Mapping[str, object]) -> None:
        answer = await self.api.request(method, url, json=body)
        self.answers[answer.status_code] += 1
        assert answer.is_success, f"{method} {url}: {answer.status_code} {answer.text}"

    async def _came(self, account_id: str, key_id: str) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ARRIVE_SECONDS):
                while (await self.paper.get(f"/accounts/{account_id}/session")).json()["key_id"] != key_id:  # noqa: ASYNC110
                    await asyncio.sleep(POLL_SECONDS)
                return True
        return False


def prove(figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as folder, LocalPlatform(Path(folder), accounts=ACCOUNTS) as platform:
        platform.stack.start(EXECUTORS[1])
        platform.stack.wait_ready(EXECUTORS[1])
        asyncio.run(_prove(figures, platform, SIZES[figures.size]))


async def _prove(figures: Figures, platform: LocalPlatform, size: Size) -> None:
    pids = [platform.stack.pid(name) for name in EXECUTORS]
    environment = platform.client_environment()
    async with await open_pool(platform.owner_url) as pool:
        # It may also enable what it disabled.
        _, key = await a_key(pool, platform.seeded.organization_id)
    headers = {"x-api-key": key}
    async with (
        httpx.AsyncClient(base_url=environment["OPENBELL_URL"], headers=headers, timeout=60, trust_env=False) as api,
        httpx.AsyncClient(base_url=platform.paper_url, timeout=60, trust_env=False) as paper,
    ):
        changes = Changes(platform, api, paper)
        accepted = await _change_under_load(changes, size)
        answers = [await changes.verified(str(account_id)) for account_id in platform.seeded.account_ids]
        spelt = [await changes.answer_to(key_id) for key_id, _ in SPELT]
    running = [platform.stack.pid(name) for name in EXECUTORS if platform.stack.is_running(name)]
    figures.shown("orders accepted meanwhile", accepted)
    figures.exactly("credentials changed", len(changes.puts), size.credentials)
    figures.exactly("changes that never came to the broker", len(changes.never_came), 0)
    figures.exactly("keys that verified as valid", answers.count("VALID"), ACCOUNTS)
    wrong = sum(answer != expected for answer, (_, expected) in zip(spelt, SPELT, strict=True))
    figures.exactly("keys that verified as what they are not", wrong, 0)
    figures.exactly("executors restarted", len(set(pids) - set(running)), 0)
    await _judge(figures, changes)


async def _change_under_load(changes: Changes, size: Size) -> int:
    """All accounts change their keys, then one after the other is switched off and on; how much was accepted."""
    accounts = [str(account_id) for account_id in changes.platform.seeded.account_ids]
    over = asyncio.Event()
    numbers, changed = itertools.count(), itertools.count()
    accepted: Counter[str] = Counter()

    async def work(client: AsyncClient) -> None:
        while not over.is_set() or accepted.total() < size.credentials:
            number = next(numbers)
            account_id = accounts[number % len(accounts)]
            # One that is disabled just now.
            with contextlib.suppress(Conflict):
                await submit_mixed(client, account_id, number)
                accepted[account_id] += 1
            await asyncio.sleep(LOAD_CLIENTS / RATE)

    async with clients(changes.platform, LOAD_CLIENTS) as opened:
        working = [asyncio.ensure_future(work(client)) for client in opened]
        try:
            await asyncio.gather(*(changes.change_credentials(each, changed, size.credentials) for each in accounts))
            for number in range(size.disables):
                await changes.disable(accounts[number % len(accounts)])
        finally:
            over.set()
        await asyncio.gather(*working)
    return accepted.total()


async def _judge(figures: Figures, changes: Changes) -> None:
    ledger = await asyncpg.connect(changes.platform.stack.environment["OPENBELL_PAPER_DATABASE_URL"], timeout=60)
    try:
        requests = await ledger.fetch("select * from requests order by number")
    finally:
        await ledger.close()
    doors = await _doors(changes.platform)
    signed_in = {row["key_id"]: row["received_at"] for row in reversed(requests) if row["kind"] == "SIGN_IN"}
    waits = sorted(
        max(0.0, (signed_in[put.key_id] - put.answered_at).total_seconds())
        for put in changes.puts
        if put.key_id in signed_in
    )
    if figures.size == "full":
        figures.at_most(
            "from the answer to a sign-in with the new key, p99, s", round(waits[len(waits) * 99 // 100], 3), 1
        )
    figures.shown("from the answer to a sign-in with the new key, p50, s", round(waits[len(waits) // 2], 3))
    commands = [row for row in requests if row["kind"] != "SIGN_IN"]
    old, on_their_way = 0, 0
    for row in commands:
        current = _key_at(changes.puts, str(row["account_id"]), doors[row["kind"], row["client_order_id"]])
        old += current is not None and row["key_id"] != current and not _is_later(row["key_id"], current)
        arrived = _key_at(changes.puts, str(row["account_id"]), row["received_at"])
        on_their_way += arrived is not None and row["key_id"] != arrived and not _is_later(row["key_id"], arrived)
    figures.at_least("commands at the broker", len(commands), len(changes.puts))
    figures.exactly(
        "commands sent with an old key through a door that opened after its replacement was answered", old, 0
    )
    figures.shown("commands on their way with the old key when its replacement was answered", on_their_way)
    figures.exactly("commands refused for their key", sum(row["done"].startswith("key_") for row in commands), 0)
    dispatched = sum(
        each.since < opened < each.until
        for each in changes.disabled
        for row in commands
        if row["kind"] == "SUBMIT" and str(row["account_id"]) == each.account_id
        for opened in [doors["SUBMIT", row["client_order_id"]]]
    )
    figures.shown("times that an account was disabled", len(changes.disabled))
    figures.exactly("new orders sent while their account was disabled", dispatched, 0)


def _key_at(puts: list[Put], account_id: str, moment: datetime) -> str | None:
    """The last key of an account that was answered for before a moment."""
    before = [put.key_id for put in puts if put.account_id == account_id and put.answered_at < moment]
    return before[-1] if before else None


def _is_later(key_id: str | None, answered: str) -> bool:
    """A key may be used before the caller has heard that it is set; they are numbered."""
    return key_id is not None and key_id > answered


async def _doors(platform: LocalPlatform) -> dict[tuple[str, str], datetime]:
    """When the door of each command opened, by its kind and the client order id that the broker logs."""
    connection = await asyncpg.connect(platform.owner_url, timeout=60)
    try:
        rows = await connection.fetch(
            "select s.action_type, s.action_id, s.send_started_at, first.action_id as order_action_id"
            " from openbell.action_states s join openbell.action_states first"
            " on first.account_id = s.account_id and first.intent_id = s.intent_id and first.seq = 1"
            " where s.send_started_at is not null"
        )
    finally:
        await connection.close()
    doors = {}
    for row in rows:
        of_order = row["action_type"] == "CANCEL"
        name = client_order_id(ActionId(row["order_action_id"] if of_order else row["action_id"]))
        doors["SUBMIT" if row["action_type"] == "CREATE" else row["action_type"], name] = row["send_started_at"]
    return doors
