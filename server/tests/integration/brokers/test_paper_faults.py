"""The faults that an account can ask for, each as it shows at the wire."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import uuid4

import pytest

from openbell_server.application.access.ports.fault_plans import FaultPlan, PlansUnavailable
from openbell_server.brokers.paper.fault_client import fault_plans
from openbell_server.brokers.paper.profiles import PAPER, PAPER_B, Profile
from openbell_server.brokers.paper.session import PaperSession
from openbell_server.brokers.paper.wire import OPERATOR_HEADER
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.broker_reports import (
    Accepted,
    NotSent,
    OrderReport,
    Outcome,
    Refused,
    ReportStatus,
    Unknown,
)
from openbell_server.settings import Settings
from support.brokers.paper_broker import (
    ACCOUNT,
    OPERATOR,
    PRICE,
    Feed,
    ask,
    found,
    kind,
    named,
    new_order,
    next_report,
    resting,
    running,
    settings_of,
    until,
)

LONG_AGO = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Published:
    """A session with a broker that misbehaves towards one account, and its feed."""

    settings: Settings
    session: PaperSession
    feed: Feed

    async def reports(self, enough: Callable[[list[OrderReport]], bool]) -> list[OrderReport]:
        """What the feed tells until it is enough; connects are passed over."""
        told: list[OrderReport] = []
        while not enough(told):
            item = await next_report(self.feed)
            told += [] if item is None else [item[1]]
        return told

    async def placed(self, account_id: AccountId = ACCOUNT) -> int:
        return len(await self.session.orders_since(account_id, LONG_AGO))


async def ask_for(settings: Settings, faults: Mapping[str, float]) -> None:
    answer = await ask(settings, "PUT", f"/accounts/{ACCOUNT}/faults", {"seed": 7, "faults": dict(faults)})
    assert answer.status_code == 200, answer.text


@asynccontextmanager
async def misbehaving(
    ledger_url: str, faults: Mapping[str, float], profile: Profile = PAPER
) -> AsyncIterator[Published]:
    settings = settings_of(ledger_url)
    async with running(settings, profile) as session, aclosing(session.reports()) as feed:
        await ask_for(settings, faults)
        assert await next_report(feed) is None
        yield Published(settings, session, feed)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openbell_server.brokers.http_client.DEADLINE_SECONDS", 1)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("fault", "placed"),
    [
        ("accept_then_hang", 1),
        ("error_500_after_accept", 1),
        ("refused_but_placed", 1),
        ("session_reset", 1),
        ("hang", 0),
    ],
)
async def test_an_answer_that_proves_nothing_leaves_the_outcome_unknown(
    ledger_url: str, fault: str, placed: int
) -> None:
    async with misbehaving(ledger_url, {fault: 1}) as told:
        assert kind(await told.session.submit(resting())) is Unknown
        assert await told.placed() == placed
        unharmed = replace(resting(), account_id=AccountId(uuid4()))
        assert kind(await told.session.submit(unharmed)) is Accepted


async def test_a_refusal_of_what_was_placed_has_a_code_that_no_table_has(ledger_url: str) -> None:
    async with misbehaving(ledger_url, {"refused_but_placed": 1}) as told:
        assert await told.session.submit(resting()) == Unknown("the broker answered 400")


@pytest.mark.parametrize(("fault", "seconds"), [("too_many_requests", None), ("too_many_requests_until", "2")])
async def test_too_many_requests_come_with_and_without_a_time_to_come_back(
    ledger_url: str, fault: str, seconds: str | None
) -> None:
    async with misbehaving(ledger_url, {fault: 1}) as told:
        body = {"symbol": "AAPL", "side": "BUY", "type": "MARKET", "quantity": "1", "time_in_force": "DAY"}
        body |= {"valid_until": "2099-01-01T00:00:00Z", "client_order_id": "abc"}
        answer = await ask(told.settings, "POST", f"/accounts/{ACCOUNT}/orders", body)
        assert (answer.status_code, answer.headers.get("retry-after")) == (429, seconds)
        outcome = await told.session.submit(resting())
        assert isinstance(outcome, NotSent)
        assert outcome.retry_after == float(seconds or 0)
        assert await told.placed() == 0


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("profile", "placed"), [(PAPER, 0), (PAPER_B, 1)], ids=["an end is enforced", "no end is enforced"]
)
async def test_an_order_is_placed_long_after_its_answer_was_given_up(
    ledger_url: str, profile: Profile, placed: int
) -> None:
    async with misbehaving(ledger_url, {"accept_late": 1, "late_ms": 2500}, profile) as told:
        order = replace(resting(), valid_until=datetime.now(UTC) + timedelta(seconds=2))
        assert kind(await told.session.submit(order)) is Unknown
        assert await told.session.find(ACCOUNT, named(order.client_order_id)) is None

        async def is_decided() -> bool:
            summary = await ask(told.settings, "GET", "/ledger/summary")
            return bool(summary.json()["requests"] == 1)

        await until(is_decided, 60)
        assert await told.placed() == placed


async def test_each_fill_is_told_twice_and_counted_once_by_its_id(ledger_url: str) -> None:
    async with misbehaving(ledger_url, {"duplicate_fills": 1}) as told:
        await told.session.submit(new_order(quantity=Decimal(1500)))
        reports = await told.reports(lambda reports: len(reports) == 5)
        ids = [fill.execution_id for report in reports for fill in report.executions]
        assert len(ids) == 4
        assert ids[0::2] == ids[1::2]
        assert len(set(ids)) == 2


async def test_what_happened_to_an_order_is_told_backwards(ledger_url: str) -> None:
    async with misbehaving(ledger_url, {"reorder_fills": 1}) as told:
        await told.session.submit(new_order(quantity=Decimal(1500)))
        reports = await told.reports(lambda reports: len(reports) == 3)
        assert [report.filled_quantity for report in reports] == [1500, 1000, 0]
        assert reports[0].status is ReportStatus.FILLED


async def test_a_fill_is_told_before_the_order_is_acknowledged(ledger_url: str) -> None:
    async with misbehaving(ledger_url, {"fill_before_ack": 1}) as told:
        acknowledged: list[Outcome] = []

        async def submit() -> None:
            acknowledged.append(await told.session.submit(new_order()))

        submitting = asyncio.ensure_future(submit())
        reports = await told.reports(lambda reports: bool(reports) and reports[-1].status is ReportStatus.FILLED)
        assert reports[-1].executions
        assert acknowledged == []
        await submitting
        assert [kind(outcome) for outcome in acknowledged] == [Accepted]


async def test_an_order_fills_after_its_cancel_was_acknowledged_and_told(ledger_url: str) -> None:
    async with misbehaving(ledger_url, {"fill_after_cancel": 1, "late_ms": 300}) as told:
        order = resting()
        await told.session.submit(order)
        assert kind(await told.session.cancel(ACCOUNT, named(order.client_order_id), order.valid_until)) is Accepted
        reports = await told.reports(lambda reports: bool(reports) and bool(reports[-1].executions))
        assert [report.status for report in reports] == [
            ReportStatus.WORKING,
            ReportStatus.CANCELED,
            ReportStatus.FILLED,
        ]
        assert reports[-1].filled_quantity == order.quantity
        position = (await ask(told.settings, "GET", f"/accounts/{ACCOUNT}")).json()["positions"]
        assert [each["quantity"] for each in position] == [str(order.quantity)]


@pytest.mark.parametrize(
    ("fault", "quantity", "price"), [("bust", Decimal(0), PRICE), ("correct", Decimal(1000), PRICE + Decimal("0.01"))]
)
async def test_a_fill_is_taken_back_or_corrected_and_cash_and_positions_follow(
    ledger_url: str, fault: str, quantity: Decimal, price: Decimal
) -> None:
    async with misbehaving(ledger_url, {fault: 1, "late_ms": 300}) as told:
        order = new_order(quantity=Decimal(1500))
        before = (await ask(told.settings, "GET", f"/accounts/{ACCOUNT}")).json()
        await told.session.submit(order)
        reports = await told.reports(lambda reports: bool(reports) and bool(reports[-1].changes))
        first_fill = reports[1].executions[0]
        assert first_fill.fee == Decimal(1)
        (change,) = reports[-1].changes
        assert reports[-1].executions == ()
        assert (change.execution_id, change.revision) == (first_fill.execution_id, 1)
        assert (change.quantity, change.price) == (quantity, price)
        assert reports[-1].filled_quantity == 500 + quantity
        report = await found(told.session, order)
        assert (report.changes, report.filled_quantity, len(report.executions)) == ((change,), 500 + quantity, 2)
        assert (change.fee, [fill.fee for fill in report.executions]) == (None, [1, Decimal("0.5")])
        after = (await ask(told.settings, "GET", f"/accounts/{ACCOUNT}")).json()
        # The fee of 0.001 a share is charged with the fills and stays.
        paid = quantity * price + 500 * PRICE + Decimal("1.5")
        assert Decimal(after["cash"]) == Decimal(before["cash"]) - paid
        assert Decimal(after["positions"][0]["quantity"]) == 500 + quantity


async def test_a_mute_feed_lives_on_and_never_tells_what_happened_meanwhile(
    ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openbell_server.brokers.paper.feed.HEARTBEAT_SECONDS", 0.2)
    monkeypatch.setattr("openbell_server.brokers.paper.session.FEED_SILENCE_SECONDS", 3)
    async with misbehaving(ledger_url, {"mute_ms": 600_000}) as told:
        unheard = resting()
        await told.session.submit(unheard)
        other = replace(resting(), account_id=AccountId(uuid4()))
        await told.session.submit(other)
        first = await next_report(told.feed)
        assert first is not None
        assert first[1].client_order_id == other.client_order_id
        await ask(told.settings, "DELETE", f"/accounts/{ACCOUNT}/faults")
        heard = resting()
        await told.session.submit(heard)
        second = await next_report(told.feed)
        assert second is not None
        assert second[1].client_order_id == heard.client_order_id
        assert told.session.is_connected


async def test_a_reset_cuts_the_feed_too_and_it_connects_again(ledger_url: str) -> None:
    async with misbehaving(ledger_url, {"session_reset": 1}) as told:
        assert kind(await told.session.submit(resting())) is Unknown
        connects = 0
        while not connects:
            connects += (await next_report(told.feed)) is None


async def test_a_plan_outlives_the_process_until_it_is_removed(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings):
        await ask_for(settings, {"refused_but_placed": 1, "late_ms": 10})
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        path = f"/accounts/{ACCOUNT}/faults"
        plan = (await ask(settings, "GET", path)).json()
        assert (plan["seed"], plan["faults"]) == (7, {"refused_but_placed": 1, "late_ms": 10})
        assert kind(await session.submit(resting())) is Unknown
        assert (await ask(settings, "DELETE", path)).json() == {"seed": 0, "faults": {}, "set_at": None}
        assert kind(await session.submit(resting())) is Accepted
        wrong = await ask(settings, "PUT", path, {"seed": 7, "faults": {"explode": 1}})
        assert (wrong.status_code, wrong.json()["code"]) == (400, "malformed")
        assert "accept_late" in wrong.json()["text"]


async def test_the_platform_sets_reads_and_removes_a_plan(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session, fault_plans(settings.paper_url, OPERATOR[OPERATOR_HEADER]) as plans:
        kept = await plans.set(ACCOUNT, FaultPlan(7, {"refused_but_placed": 1}))
        assert (kept.seed, kept.faults) == (7, {"refused_but_placed": 1})
        assert await plans.read(ACCOUNT) == kept
        assert kind(await session.submit(resting())) is Unknown
        await plans.clear(ACCOUNT)
        assert await plans.read(ACCOUNT) == FaultPlan(0, {})
        assert kind(await session.submit(resting())) is Accepted


async def test_a_platform_with_another_secret_is_shown_which_setting_differs(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings), fault_plans(settings.paper_url, "another") as plans:
        with pytest.raises(PlansUnavailable, match="OPENBELL_PAPER_SECRET"):
            await plans.read(ACCOUNT)


async def test_by_terms_the_same_orders_have_the_same_faults_for_every_account_and_id(ledger_url: str) -> None:
    outcomes = []
    async with running(settings_of(ledger_url, "seed=7,refuse=0.4,error_500_after_accept=0.3,by_terms=1")) as session:
        for account in (ACCOUNT, AccountId(uuid4())):
            # Each is sent three times, as by a client that retries under another id.
            orders = [new_order(account_id=account, quantity=Decimal(1 + number // 3)) for number in range(30)]
            outcomes.append([kind(await session.submit(order)) for order in orders])
    first, second = outcomes
    assert first == second
    assert set(first) == {Accepted, Refused, Unknown}
    assert any(len(set(first[number : number + 3])) > 1 for number in range(0, 30, 3)), "a retry has its own chance"
