"""What an operator sees of a process on its own port, and that the port can do the process no harm."""

import asyncio
import contextlib
import re
import socket
import sys

import asyncpg
import httpx
import pytest
from pydantic import SecretStr

from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.devtools.child_processes import free_port
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.errors import OperatorError, RateLimited
from openbell_server.processes import api, back, executor, front, lifecycle, relay, stream
from openbell_server.processes.execution_metrics import watch_queues
from openbell_server.processes.metrics import watch_requests
from openbell_server.processes.operations_port import NotReady, Operations
from openbell_server.processes.rate_limits import watch_limits
from openbell_server.settings import Settings
from support.brokers.paper_broker import until
from support.builders.tenant import new_id
from support.rest.operations_port import looking_at, metrics_of
from support.rest.rest_api import limited, rest_api
from support.tenancy.statements import Owner


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/healthz", 200), ("HEAD", "/metrics", 200), ("GET", "/", 404), ("POST", "/metrics", 405)],
)
async def test_it_answers_three_paths_and_changes_nothing(method: str, path: str, status: int) -> None:
    async with looking_at(Operations("api")) as client:
        assert (await client.request(method, path)).status_code == status


async def test_a_process_is_not_ready_while_it_starts_and_when_it_ends(pool: Pool) -> None:
    operations = Operations("api")
    async with looking_at(operations) as client:
        starting = await client.get("/readyz")
        assert (starting.status_code, starting.json()["why"]) == (503, "the process is starting")
        operations = Operations("api")
        operations.watch_database(pool)
    async with looking_at(operations) as client:
        assert (await client.get("/readyz")).json() == {
            "ready": True,
            "process": "api",
            "why": None,
            "checks": {"database": "ok"},
        }
        operations.end()
        ending = await client.get("/readyz")
        assert (ending.status_code, ending.json()["why"]) == (503, "the process is ending")


@pytest.mark.parametrize(("needed", "status"), [(True, 503), (False, 200)])
async def test_only_who_needs_nats_is_not_ready_without(pool: Pool, needed: bool, status: int) -> None:
    operations = Operations("relay")
    operations.watch_database(pool)
    operations.watch_nats(JetStreamConnection("nats://127.0.0.1:1"), needed=needed)
    async with looking_at(operations) as client:
        answer = await client.get("/readyz")
    assert answer.status_code == status
    assert answer.json()["checks"]["nats"].startswith("NATS is not connected")
    assert (await metrics_of(operations))["openbell_nats_connected"] == 0


async def test_a_check_that_fails_or_hangs_is_a_503_with_a_sentence() -> None:
    async def refuses() -> None:
        raise NotReady("no slot is held")

    async def breaks() -> None:
        raise ValueError("postgresql://app:planted@db")

    operations = Operations("executor")
    operations.need("slots", refuses)
    operations.need("other", breaks)
    async with looking_at(operations) as client:
        answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["why"] == "no slot is held; ValueError"


async def test_requests_are_counted_by_route_and_never_by_path_or_word_of_the_caller(login_pool: Pool) -> None:
    operations = Operations("api")
    async with rest_api(login_pool, observe=watch_requests(operations)) as api:
        await api.client.get("/healthz")
        for _ in range(3):
            await api.client.get(f"/v1/accounts/{new_id()}/intents")
            await api.client.request(f"WORD{new_id().hex[-4:].upper()}", f"/{new_id()}")
    counted = {name: value for name, value in (await metrics_of(operations)).items() if "requests_total" in name}
    assert counted == {
        'openbell_api_requests_total{method="GET",route="/healthz",status="2xx"}': 1,
        'openbell_api_requests_total{method="GET",route="/v1/accounts/{account_id}/intents",status="4xx"}': 3,
        'openbell_api_requests_total{method="other",route="none",status="4xx"}': 3,
    }


async def test_rows_that_wait_and_rows_that_failed_are_shown_by_queue(login_pool: Pool, owner: Owner) -> None:
    operations = Operations("relay")
    watch_queues(operations, login_pool)
    organization = new_id()
    await owner.execute(
        "insert into outbox_failures (queue, outbox_id, organization_id, event_type, created_at, attempts, failed_at)"
        " values ('users', 1, $1, 'user.deleted', now(), 10, now())",
        organization,
    )
    shown = await metrics_of(operations)
    assert shown['openbell_outbox_failed_rows{queue="users"}'] == 1
    assert shown['openbell_outbox_pending_rows{queue="intents"}'] == 0
    assert str(organization) not in repr(shown)


async def test_numbers_that_the_database_does_not_tell_are_missing_and_counted(pool: Pool) -> None:
    operations = Operations("relay")
    watch_queues(operations, pool)
    await pool.close()
    shown = await metrics_of(operations)
    assert shown["openbell_store_reads_failed_total"] == 1
    assert not [name for name in shown if name.startswith("openbell_outbox")]


async def test_refusals_are_counted_by_kind() -> None:
    operations, limit = Operations("api"), limited(validations_per_second=1)
    watch_limits(operations, limit)
    for _ in range(3):
        with contextlib.suppress(RateLimited):
            await limit.validation("192.0.2.1")
    shown = await metrics_of(operations)
    assert shown['openbell_rate_limit_refusals_total{kind="validate"}'] == 2
    assert shown["openbell_rate_limits_shared"] == 0


async def test_a_port_that_is_taken_stops_nothing_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openbell_server.processes.operations_port.RETRY_SECONDS", 0.05)
    port = free_port()
    taken = socket.create_server(("127.0.0.1", port))
    serving = asyncio.ensure_future(Operations("api").run(Settings(operations_port=port)))
    try:
        await asyncio.sleep(0.2)
        assert not serving.done()
        taken.close()

        async def answers() -> bool:
            async with httpx.AsyncClient(trust_env=False) as client:
                try:
                    return (await client.get(f"http://127.0.0.1:{port}/healthz")).status_code == 200
                except httpx.HTTPError:
                    return False

        await until(answers, 60)
    finally:
        taken.close()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@pytest.fixture
def away() -> dict[str, str]:
    return {
        "OPENBELL_DATABASE_URL": f"postgresql://openbell_app:planted@127.0.0.1:{free_port()}/openbell",
        "OPENBELL_PAPER_DATABASE_URL": f"postgresql://openbell:planted@127.0.0.1:{free_port()}/openbell_paper",
        "OPENBELL_CURSOR_SECRET": "0123456789abcdef" * 2,
    }


@pytest.mark.parametrize("process", ["api", "stream", "relay", "executor", "paper", "front", "back"])
async def test_a_process_that_cannot_reach_its_database_ends_with_a_sentence(
    process: str, away: dict[str, str]
) -> None:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "openbell_server", process), env=away, stderr=asyncio.subprocess.PIPE
    )
    _, said = await asyncio.wait_for(child.communicate(), 60)
    assert child.returncode == 2, said
    (line,) = [line for line in said.decode().splitlines() if not line.startswith("{")]
    assert re.fullmatch(r"The database did not answer \(.*\): check its address .*", line)
    assert "planted" not in said.decode()


@pytest.mark.parametrize("serve", [api.serve, stream.serve, relay.serve, executor.serve, front.serve, back.serve])
async def test_a_process_on_an_empty_database_names_the_command_that_migrates_it(
    serve: lifecycle.Serve, services: LocalServices, away: dict[str, str]
) -> None:
    name = f"empty_{new_id().hex}"
    owner = await asyncpg.connect(services.postgres.url("postgres"), timeout=60)
    try:
        # A login without roles, as on a server where nothing was migrated yet.
        await owner.execute(f"create role {name} login")
        await owner.execute(f"create database {name}")
        settings = Settings(
            database_url=SecretStr(services.postgres.url(name, name)),
            cursor_secret=SecretStr(away["OPENBELL_CURSOR_SECRET"]),
        )
        with pytest.raises(OperatorError, match="run `openbell-server migrate`"):
            await serve(settings, asyncio.Event(), Operations("any"), JetStreamConnection(""))
    finally:
        await owner.execute(f"drop database if exists {name} (force)")
        await owner.execute(f"drop role {name}")
        await owner.close()


async def test_a_process_that_lost_its_database_while_it_served_does_not_say_that_it_found_none() -> None:
    async def serve(_: Settings, __: asyncio.Event, operations: Operations, ___: JetStreamConnection) -> None:
        operations.need("something", lambda: asyncio.sleep(0))
        raise ConnectionError("later")

    with pytest.raises(ConnectionError, match="later"):
        await lifecycle._supervise(Operations("api"), Settings(), serve)


async def test_a_database_that_answers_too_late_is_named_and_is_no_slow_drain() -> None:
    async def serve(*_: object) -> None:
        raise TimeoutError

    with pytest.raises(OperatorError, match=r"did not answer \(TimeoutError\)"):
        await lifecycle._supervise(Operations("api"), Settings(), serve)


async def test_a_process_that_does_not_drain_in_time_ends_with_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "DRAIN_SECONDS", 0.2)
    monkeypatch.setattr(lifecycle, "until_signalled", lambda: asyncio.sleep(0))
    begun = asyncio.Event()

    async def serve(*_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    supervising = lifecycle._supervise(Operations("api"), Settings(), serve)
    with pytest.raises(SystemExit) as ended:
        await supervising
    assert ended.value.code == 1
    assert begun.is_set()
