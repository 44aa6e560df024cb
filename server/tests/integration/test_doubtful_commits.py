"""A commit whose answer is lost: found out where possible, called unknown where not, and told truly on retry."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

import asyncpg
import httpx
import pytest

from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.connection import DOUBTFUL, UNAVAILABLE, Pool, open_pool
from openbell_server.adapters.postgres.controls.markets import PostgresMarketStore
from openbell_server.adapters.postgres.controls.rule_books import PostgresRuleBookStore
from openbell_server.adapters.postgres.controls.symbol_controls import PostgresControlStore
from openbell_server.adapters.postgres.execution.execution import PostgresAccountTransaction, PostgresExecutionStore
from openbell_server.adapters.postgres.intents.accept_with_counts import PostgresCountedAcceptStore
from openbell_server.adapters.postgres.intents.intents import PostgresIntentStore
from openbell_server.application.controls.check_command import CheckCommand
from openbell_server.application.execution.record_outcomes import RECORD_SECONDS
from openbell_server.application.intents.account_cache import RecentAccounts
from openbell_server.application.intents.submit_intent import SubmitIntent, Submitted
from openbell_server.application.ports.accept_step import Acceptance, Submission
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.errors import Problem
from openbell_server.domain.orders.broker_reports import Accepted, Outcome, Refused, Unknown
from openbell_server.domain.orders.intents import CommandRequest
from support.brokers.execution_harness import Clock
from support.brokers.scripted_broker import Harness
from support.builders.tenant import Tenant, a_market_create, a_tenant, accepting, ids
from support.environment.commit_proxy import CommitProxy, Cut
from support.rest.rest_api import RecordedHints, RestApi, cancel_body, create_body, problem, rest_api


@dataclass(frozen=True, slots=True)
class CutStore(PostgresIntentStore):
    """Loses the connection before or after the commit, once."""

    cuts: list[str] = field(default_factory=list)

    async def accept_across_organizations(self, submissions: Sequence[Submission]) -> list[Acceptance]:
        cut = self.cuts.pop() if self.cuts else ""
        if cut == "before":
            raise ConnectionResetError("cut before the commit")
        answers = await PostgresIntentStore(self.pool).accept_across_organizations(submissions)
        if cut == "after":
            raise ConnectionResetError("cut after the commit")
        return answers


async def submit(pool: Pool, tenant: Tenant, cut: str, key: str | None) -> Submitted:
    async def decode(_: BrokerDefinition) -> CommandRequest:
        return CommandRequest(command=a_market_create())

    organizations = PostgresOrganizationStore(pool)
    intents = CutStore(pool, [cut])
    counted, market = PostgresCountedAcceptStore(pool), PostgresMarketStore(pool)
    use_case = SubmitIntent(
        RecentAccounts(organizations, ids(pool).now),
        intents,
        accepting(intents),
        PostgresControlStore(pool),
        CheckCommand(PostgresRuleBookStore(pool), intents, market, counted, None),
        ids(pool),
        BROKERS,
        RecordedHints(),
        DOUBTFUL,
        UNAVAILABLE,
    )
    return await use_case(tenant.principal, tenant.account.id, decode, lambda: key)


async def test_a_commit_whose_answer_was_lost_is_found_out(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    first = await submit(pool, tenant, "after", "k")
    again = await submit(pool, tenant, "", "k")
    assert (first.replayed, again.replayed) == (False, True)
    assert first.recorded.action == again.recorded.action
    assert await pool.fetchval("select count(*) from intent_actions") == 1


async def test_a_commit_without_a_key_whose_answer_was_lost_is_found_out(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    found = await submit(pool, tenant, "after", None)
    assert found.recorded.action.id == await pool.fetchval("select action_id from intent_actions")


async def test_what_cannot_be_found_is_called_unknown_and_a_retry_tells(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    with pytest.raises(Problem) as unknown:
        await submit(pool, tenant, "before", "k")
    assert unknown.value.code == "outcome_unknown"
    assert (await submit(pool, tenant, "", "k")).replayed is False
    assert await pool.fetchval("select count(*) from intent_actions") == 1


async def test_a_look_up_that_the_database_refuses_tells_nothing(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: object) -> None:
        raise asyncpg.TooManyConnectionsError("sorry, too many clients already")

    tenant = await a_tenant(pool)
    monkeypatch.setattr(PostgresIntentStore, "find_action_by_key", full)
    with pytest.raises(Problem) as unknown:
        await submit(pool, tenant, "after", "k")
    assert unknown.value.code == "outcome_unknown"
    assert str((await submit(pool, tenant, "", "k")).recorded.action.intent_id) in unknown.value.detail


@pytest.fixture
async def proxy(database: str) -> AsyncIterator[CommitProxy]:
    async with CommitProxy(database) as running:
        yield running


@pytest.fixture
async def api(proxy: CommitProxy) -> AsyncIterator[RestApi]:
    """The application on a pool through the proxy."""
    async with await open_pool(proxy.url) as through, rest_api(through) as opened:
        yield opened


async def recorded(pool: Pool) -> list[str]:
    """All intents there are."""
    return [str(row["intent_id"]) for row in await pool.fetch("select intent_id from intent_actions")]


def named(unknown: httpx.Response) -> str:
    """The intent that an answer cannot vouch for."""
    detail = str(problem(unknown, 503, "outcome_unknown")["detail"])
    found = re.search(r"intent ([0-9a-f-]{36});", detail)
    assert found, detail
    return found[1]


async def submit_until_accepted(api: RestApi, tenant: Tenant) -> httpx.Response:
    """Retry as a caller would: the database may still hold the account for what was cut."""
    async with asyncio.timeout(60):
        while (answer := await api.submit(tenant, create_body(), "k")).status_code == 503:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert answer.status_code == 202, answer.text
    return answer


@pytest.mark.parametrize("stop", [0, 1, -1])
async def test_a_commit_that_never_arrived_is_unknown_and_a_retry_records_it_once(
    pool: Pool, proxy: CommitProxy, api: RestApi, stop: int
) -> None:
    tenant = await a_tenant(pool)
    proxy.arm(Cut("commit", stop))
    unknown = named(await api.submit(tenant, create_body(), "k"))
    again = await submit_until_accepted(api, tenant)
    assert "idempotency-replayed" not in again.headers
    assert await recorded(pool) == [again.json()["intent_id"]] != [unknown]


@pytest.mark.parametrize("stop", [0, 1, -1, None])
async def test_a_commit_whose_reply_was_cut_is_accepted_under_the_recorded_id(
    pool: Pool, proxy: CommitProxy, api: RestApi, stop: int | None
) -> None:
    tenant = await a_tenant(pool)
    proxy.arm(Cut("reply", stop))
    first = await api.submit(tenant, create_body(), "k")
    assert (first.status_code, proxy.made.total()) == (202, 1)
    assert await recorded(pool) == [first.json()["intent_id"]]
    assert api.hints.rows == 1
    again = await submit_until_accepted(api, tenant)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json() == first.json()


async def test_a_cancel_whose_reply_was_cut_is_accepted(pool: Pool, proxy: CommitProxy, api: RestApi) -> None:
    tenant = await a_tenant(pool)
    intent = (await submit_until_accepted(api, tenant)).json()["intent_id"]
    proxy.arm(Cut("reply", 0))
    cancel = await api.submit(tenant, cancel_body(intent), "c")
    assert (cancel.status_code, proxy.made.total()) == (202, 1)
    assert (cancel.json()["intent_id"], cancel.json()["seq"]) == (intent, 2)
    assert await recorded(pool) == [intent, intent]


@pytest.mark.parametrize("part", ["commit", "reply"])
async def test_a_replay_that_was_cut_records_nothing_new(
    pool: Pool, proxy: CommitProxy, api: RestApi, part: Literal["commit", "reply"]
) -> None:
    tenant = await a_tenant(pool)
    first = await submit_until_accepted(api, tenant)
    proxy.arm(Cut(part, 0))
    cut = await api.submit(tenant, create_body(), "k")
    assert proxy.made.total() == 1
    assert (cut.status_code, cut.headers["idempotency-replayed"]) == (202, "true")
    assert cut.json() == first.json()
    again = await submit_until_accepted(api, tenant)
    assert again.headers["idempotency-replayed"] == "true"
    assert await recorded(pool) == [again.json()["intent_id"]] == [first.json()["intent_id"]]


async def test_a_commit_that_nobody_can_look_up_is_unknown_under_the_recorded_id(
    pool: Pool, proxy: CommitProxy, api: RestApi
) -> None:
    tenant = await a_tenant(pool)
    proxy.arm(Cut("reply", 0, alone=True))
    unknown = named(await api.submit(tenant, create_body(), "k"))
    assert await recorded(pool) == [unknown]
    problem(await api.submit(tenant, create_body(), "k"), 503, "unavailable")
    proxy.admit()
    again = await submit_until_accepted(api, tenant)
    assert again.headers["idempotency-replayed"] == "true"
    assert await recorded(pool) == [again.json()["intent_id"]] == [unknown]


SLOW_COMMIT = """
create function openbell.wait_at_commit() returns trigger language plpgsql set lock_timeout = 0 as
$$ begin perform pg_advisory_xact_lock(1); return null; end $$;
create constraint trigger wait_at_commit after insert on openbell.intent_actions deferrable initially deferred
    for each row execute function openbell.wait_at_commit();
select pg_advisory_lock(1);
"""


@pytest.mark.usefixtures("limits_as_they_are")
async def test_finding_nothing_proves_nothing_while_the_server_is_at_work_on_the_commit(
    database: str, pool: Pool, proxy: CommitProxy, api: RestApi
) -> None:
    tenant = await a_tenant(pool)
    gate = await asyncpg.connect(database, timeout=60)
    try:
        await gate.execute(SLOW_COMMIT, timeout=60)
        proxy.arm(Cut("commit", None))
        unknown = named(await api.submit(tenant, create_body(), "k"))
        problem(await api.submit(tenant, create_body(), "k"), 503, "unavailable")
        assert await recorded(pool) == []
    finally:
        await gate.close()
    again = await submit_until_accepted(api, tenant)
    assert again.headers["idempotency-replayed"] == "true"
    assert await recorded(pool) == [again.json()["intent_id"]] == [unknown]


@dataclass(frozen=True, slots=True)
class CutExecutionStore(PostgresExecutionStore):
    """Fails around the commit as it is told, once for each word; a second passes with every failure."""

    clock: Clock
    cuts: list[str]
    error: Exception = field(default_factory=lambda: ConnectionResetError("cut"))

    @asynccontextmanager
    async def account_transaction(self, account: BrokerAccount) -> AsyncIterator[PostgresAccountTransaction]:
        cut = self.cuts.pop() if self.cuts else ""
        self.clock.seconds += bool(cut)
        if cut == "before":
            raise self.error
        async with PostgresExecutionStore(self.pool).account_transaction(account) as transaction:
            yield transaction
            if cut == "inside":
                raise self.error
        if cut == "after":
            raise self.error


async def dispatch(harness: Harness, answer: Outcome, store: PostgresExecutionStore) -> None:
    """Take one create through its door, and record the answer in this store."""
    await harness.accept()
    (door,) = await harness.open_doors()
    harness.broker.script.append(answer)
    await replace(harness.execute, store=store).dispatch(harness.broker, door)


@pytest.mark.parametrize("cut", ["before", "inside", "after"])
@pytest.mark.parametrize(
    ("answer", "state"), [(Refused("E1", "no"), "REFUSED"), (Accepted("b1"), "ACKED"), (Unknown("?"), "UNKNOWN")]
)
async def test_an_answer_is_recorded_once_though_the_database_went_away_for_a_moment(
    pool: Pool, cut: str, answer: Outcome, state: str
) -> None:
    harness = Harness(pool, await a_tenant(pool))
    await dispatch(harness, answer, CutExecutionStore(pool, harness.clock, [cut]))
    assert [action_state for _, action_state, _ in await harness.states()] == [state]
    untroubled = Harness(pool, await a_tenant(pool))
    await dispatch(untroubled, answer, PostgresExecutionStore(pool))
    events = "select array_agg(kind order by event_no) from account_events where account_id = $1"
    assert await pool.fetchval(events, harness.tenant.account.id) == await pool.fetchval(
        events, untroubled.tenant.account.id
    )
    assert (harness.broker.calls, len(harness.hints.accounts)) == (1, len(untroubled.hints.accounts))


async def test_an_answer_is_given_up_when_the_database_stays_away(pool: Pool) -> None:
    harness = Harness(pool, await a_tenant(pool))
    cuts = ["before"] * 100
    with pytest.raises(ConnectionResetError):
        await dispatch(harness, Accepted("b1"), CutExecutionStore(pool, harness.clock, cuts))
    assert 100 - len(cuts) == RECORD_SECONDS + 1
    assert await harness.states() == [("CREATE", "DISPATCHING", None)]
    assert harness.broker.calls == 1


async def test_an_answer_that_the_database_cannot_hold_is_tried_once(pool: Pool) -> None:
    harness = Harness(pool, await a_tenant(pool))
    cuts = ["before"] * 100
    with pytest.raises(ValueError, match="a bug"):
        await dispatch(harness, Accepted("b1"), CutExecutionStore(pool, harness.clock, cuts, ValueError("a bug")))
    assert len(cuts) == 99


async def test_whatever_the_driver_calls_a_connection_that_its_server_ended_it_is_in_doubt(
    database: str, pool: Pool
) -> None:
    async def until_it_fails(connection: "asyncpg.Connection[asyncpg.Record]") -> Exception:
        while True:
            try:
                await connection.fetchval("select 1", timeout=60)
            except Exception as error:  # noqa: BLE001 - which one it is depends on what the server's last word met
                return error

    for _ in range(50):
        connection = await asyncpg.connect(database, timeout=60)
        failing = asyncio.ensure_future(until_it_fails(connection))
        await pool.execute("select pg_terminate_backend($1)", connection.get_server_pid())
        assert isinstance(await asyncio.wait_for(failing, 60), DOUBTFUL)
        connection.terminate()
