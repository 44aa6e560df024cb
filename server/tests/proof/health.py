"""How the queues stand: exact in any state, as cheap after a million rows, and silent about what the rows say."""

import asyncio
import contextlib
import logging
import random
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import httpx
import structlog

from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.devtools.child_processes import free_port
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.events.outbox import Queue
from openbell_server.http_protocol import Connections
from openbell_server.processes.execution_metrics import watch_queues
from openbell_server.processes.http_server import serve_http
from openbell_server.processes.operations_port import Operations
from openbell_server.processes.rest_wiring import rest_app
from proof.figures import Figures
from proof.queue_states import compare_states
from support.builders.outbox_rows import queue_row
from support.builders.tenant import Tenant, a_tenant
from support.environment.logins import TEST_LOGIN, allow_every_login
from support.identity.bearers import Headers, as_service, as_user, as_user_without_organization
from support.rest.rest_api import RestApi, limited, rest_api, rest_dependencies

SIZES = {
    "full": {"states": 300, "hostile": 1_000, "few": 10_000, "many": 1_000_000, "pairs": 15, "requests": 60},
    "gate": {"states": 30, "hostile": 60, "few": 200, "many": 2_000, "pairs": 1, "requests": 5},
}
SEED = 5
TEMPLATE = "migrated"
CHUNK = 20_000
UNRESOLVED = 40
SECONDS_MAX = 580
HEALTH, OPERATIONS = "/v1/accounts/outbox/health", "/v1/operations/outboxes"
STATUSES = ("pending", "processing", "completed", "failed")
OPERATOR = as_service("credential:read")


def prove(figures: Figures) -> None:
    # The application runs in this process; a line per request would hide the figures.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with LocalServices() as services:
        asyncio.run(asyncio.wait_for(_prove(figures, services), SECONDS_MAX))


async def _prove(figures: Figures, services: LocalServices) -> None:
    size, chance = SIZES[figures.size], random.Random(SEED)
    await _create(services, TEMPLATE, "template1")
    await asyncio.to_thread(migrate, services.postgres.url(TEMPLATE))
    await asyncio.to_thread(allow_every_login, services.postgres.url(TEMPLATE))
    async with _database(services, "states") as (owner, login), rest_api(login) as api:
        await compare_states(figures, owner, login, api, chance, size["states"])
    async with _database(services, "hostile") as (owner, login):
        await _ask_beside_hostile_rows(figures, owner, login, chance, size["hostile"])
    async with (
        _database(services, "few") as (few_owner, few_login),
        _database(services, "many") as (many_owner, many_login),
    ):
        await _grow(few_owner, size["few"])
        begun = time.monotonic()
        await _grow(many_owner, size["many"])
        figures.shown("seconds to queue and complete the many rows", round(time.monotonic() - begun, 1))
        async with _served(few_login) as few, _served(many_login) as many:
            await _compare_cost(figures, few, many, chance, size)


async def _create(services: LocalServices, name: str, template: str) -> None:
    administrator = await asyncpg.connect(services.postgres.url(), timeout=60)
    await administrator.execute(f"create database {name} template {template}", timeout=60)
    await administrator.close()


@asynccontextmanager
async def _database(services: LocalServices, name: str) -> AsyncIterator[tuple[Pool, Pool]]:
    """A database of the newest schema: its owner, and the login of the processes."""
    await _create(services, name, TEMPLATE)
    async with (
        await open_pool(services.postgres.url(name), connections_max=2) as owner,
        await open_pool(services.postgres.url(name, TEST_LOGIN), connections_max=8) as login,
    ):
        yield owner, login


_QUEUED = """
insert into account_outbox (organization_id, account_id, event_type, payload, available_at, created_at)
select $1, $2,
    (array['account', 'credential'])[1 + n % 2] || '.' || (array['created', 'updated', 'deleted'])[1 + n % 3], '{}',
    now(), now() - n * interval '1 second'
from generate_series(1, $3::bigint) n
"""
_COMPLETED = (
    "update account_outbox set status = 'completed', attempts = 1, resolved_at = now() where resolved_at is null"
)


async def _grow(owner: Pool, rows: int) -> None:
    """Completed rows, counted by the product's own trigger; then some that wait, are claimed or failed."""
    tenant = await a_tenant(owner)
    account = tenant.account
    for begun in range(0, rows, CHUNK):
        queued = min(CHUNK, rows - begun)
        await owner.execute(_QUEUED, account.organization_id, account.id, queued, timeout=120)
        await owner.execute(_COMPLETED, timeout=120)
    for number in range(UNRESOLVED):
        await queue_row(owner, tenant, status=STATUSES[number % 4])
    await owner.execute("vacuum analyze", timeout=300)


@asynccontextmanager
async def _served(login: Pool) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application behind a socket."""
    stopping, port = asyncio.Event(), free_port()
    app = rest_app(rest_dependencies(login))
    serving = asyncio.ensure_future(
        serve_http(app, "127.0.0.1", port, stopping, connections=Connections(64, 64), ready=lambda: None)
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
            async with asyncio.timeout(60):
                while True:
                    with contextlib.suppress(httpx.TransportError):
                        await client.get("/healthz")
                        break
                    await asyncio.sleep(0.05)
            yield client
    finally:
        stopping.set()
        await asyncio.wait_for(serving, 60)


async def _compare_cost(
    figures: Figures, few: httpx.AsyncClient, many: httpx.AsyncClient, chance: random.Random, size: dict[str, int]
) -> None:
    """Both in turn, request by request and each first as often, so that whatever else the machine does meets both."""
    for path in (HEALTH, OPERATIONS):
        medians = []
        for number in range(size["pairs"] + 1):
            took: tuple[list[float], list[float]] = ([], [])
            for _ in range(size["requests"]):
                turn = list(zip((few, many), took, strict=True))
                for client, times in chance.sample(turn, 2):
                    begun = time.perf_counter()
                    answer = await client.get(path, headers=OPERATOR)
                    times.append(time.perf_counter() - begun)
                    assert answer.status_code == 200, answer.text
            # The first pair warms both up.
            if number:
                medians.append([statistics.median(times) * 1000 for times in took])
        what = path.rpartition("/")[2]
        for rows, those in zip((size["few"], size["many"]), zip(*medians, strict=True), strict=True):
            figures.shown(f"{what} p50 at {rows} completed rows, ms", round(statistics.median(those), 2))
        ratio = round(statistics.median(slow / fast for fast, slow in medians), 2)
        figure = f"{what} p50 at the many rows against the few, median of {size['pairs']} pairs"
        if figures.size == "full":
            figures.at_most(figure, ratio, 3)
        else:
            figures.shown(figure, ratio)
    for client, rows in ((few, size["few"]), (many, size["many"])):
        told = (await client.get(HEALTH, headers=OPERATOR)).json()["completed"]
        figures.exactly(f"completed rows reported of {rows} and {UNRESOLVED // 4}", told, rows + UNRESOLVED // 4)


def _payloads(chance: random.Random, tenant: Tenant, number: int) -> list[tuple[str, str]]:
    """Texts that no reply may show, each with the word to look for."""
    made = []
    for index in range(number):
        word = f"canary{chance.getrandbits(64):016x}"
        ids = f'{{"organization_id": "{tenant.account.organization_id}", "account_id": "{tenant.account.id}"}}'
        kinds = (
            f"<script>alert('{word}')</script><img src=x onerror={word}>",
            f"'); drop table account_outbox; -- {word}",
            f'{{"api_key": "ob_live_{word}", "password": "{word}", "authorization": "Bearer {word}"}}',
            f"\x1b]0;{word}\x07\x1b[2J\r\nset-cookie: {word}\r\n\r\n{word}",
            word * (100_000 // len(word)),
            f'{ids[:-1]}, "note": "{word}"}}',
            f"%s%n{{0}}{{{word}}}${{jndi:ldap://{word}}}\N{RIGHT-TO-LEFT OVERRIDE}{word}",
            f'{{"a": {"[" * 500}"{word}"{"]" * 500}}}',
            f"vault:{word} error: {word}: Traceback (most recent call last)",
        )
        made.append((kinds[index % len(kinds)], word))
    return made


async def _ask_beside_hostile_rows(
    figures: Figures, owner: Pool, login: Pool, chance: random.Random, number: int
) -> None:
    tenant, internal = await a_tenant(owner), await a_tenant(owner)
    await owner.execute(
        "update organizations set internal = true where organization_id = $1", internal.account.organization_id
    )
    payloads = _payloads(chance, tenant, number)
    for index, (payload, word) in enumerate(payloads):
        queue = (Queue.ACCOUNTS, Queue.USERS)[index // 4 % 2]
        await queue_row(owner, tenant, queue, STATUSES[index % 4], payload=payload, attempts=index % 10)
        if index % 8 == 3:
            await owner.execute(
                "update outbox_failures set acknowledged_by = $1, acknowledged_at = now(), acknowledged_reason = $2"
                " where outbox_id = (select max(outbox_id) from outbox_failures where queue = 'accounts')"
                " and queue = 'accounts'",
                word,
                payload,
            )
    types_taken = 0
    for payload, _ in payloads[:100]:
        with contextlib.suppress(asyncpg.CheckViolationError):
            await queue_row(owner, tenant, event_type=payload)
            types_taken += 1
    async with rest_api(login) as api, rest_api(login, limit=limited(reads_per_minute=1)) as refusing:
        replies = await _replies(owner, login, api, refusing, tenant, internal)
    words = [word for _, word in payloads]
    words += [str(value) for value in (tenant.account.id, tenant.account.organization_id)]
    words += ["<script>", "drop table", "ob_live_", "jndi", "Traceback", "vault:"]
    figures.exactly("hostile rows queued", len(payloads), number)
    figures.exactly("hostile event types that the queue took", types_taken, 0)
    figures.shown("replies searched", len(replies))
    statuses = {int(reply[:3]) for reply in replies}
    figures.shown("statuses of the replies", " ".join(map(str, sorted(statuses))))
    figures.exactly("statuses that no reply had", len({200, 400, 401, 403, 405, 429, 500, 503} - statuses), 0)
    figures.exactly(
        "texts of hostile rows found in a reply", sum(word in reply for word in words for reply in replies), 0
    )


async def _metrics(login: Pool) -> list[httpx.Response]:
    """What a relay shows on its operations port."""
    operations = Operations("relay")
    operations.watch_database(login)
    watch_queues(operations, login)
    transport = httpx.ASGITransport(operations)
    async with httpx.AsyncClient(transport=transport, base_url="http://relay.test") as client:
        answers = [await client.get(path) for path in ("/metrics", "/readyz", "/healthz", "/nothing")]
    assert 'openbell_outbox_pending_rows{queue="accounts"}' in answers[0].text
    return answers


async def _replies(
    owner: Pool, login: Pool, api: RestApi, refusing: RestApi, tenant: Tenant, internal: Tenant
) -> list[str]:
    """Every kind of answer of both reports and of the metrics: status, headers and body."""
    callers: list[Headers] = [
        OPERATOR,
        as_user(internal),
        {},
        {"x-api-key": tenant.key},
        {"authorization": "Bearer a.b.c"},
        as_user_without_organization(),
        as_user(tenant),
        as_service("intent:read"),
        OPERATOR | {"x-api-key": tenant.key},
    ]
    answers = []
    for path in (HEALTH, OPERATIONS):
        answers += [await api.client.get(path, headers=headers) for headers in callers]
        answers.append(await api.client.get(f"{path}?queue=accounts", headers=OPERATOR))
        answers.append(await api.client.post(path, headers=OPERATOR, content=b"{}"))
        answers.append(await refusing.client.get(path, headers=OPERATOR))
    for before, after in _TROUBLES:
        await owner.execute(before)
        answers += [await api.client.get(path, headers=OPERATOR) for path in (HEALTH, OPERATIONS)]
        await owner.execute(after)
    answers += await _metrics(login)
    return [f"{answer.status_code} {dict(answer.headers)} {answer.text}" for answer in answers]


# What the reports read is taken away, or is not as it was.
_TROUBLES = (
    ("revoke select on outbox_failures from openbell_health", "grant select on outbox_failures to openbell_health"),
    ("alter table outbox_failures rename to gone", "alter table gone rename to outbox_failures"),
    (
        "alter table outbox_roll_ups rename column count to counted",
        "alter table outbox_roll_ups rename column counted to count",
    ),
)
