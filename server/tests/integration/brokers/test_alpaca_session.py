"""The Alpaca session against its loopback, over real sockets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID, uuid4

import pytest

from loopbacks import Loopback, loopback
from openbell_exchange.money import CASH, fee
from openbell_server.application.ports.broker import BrokerOrder, BrokerReplacement, FeedItem, NotSignedIn
from openbell_server.brokers.alpaca.session import AlpacaSession
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets, SignedIn, SignInRefused
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.orders.broker_reports import (
    Accepted,
    NotSent,
    OrderReport,
    Outcome,
    Refused,
    ReportStatus,
    Unknown,
)
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import EXACT, OrderType, Terms, TimeInForce
from support.brokers.paper_broker import AAPL, ACCOUNT, ask, named, new_order, soon, until

NEIGHBOUR = AccountId(UUID("00000000-0000-7000-8000-000000000002"))
TEN = Decimal(10)


@pytest.fixture
async def alpaca(ledger_url: str) -> AsyncIterator[Loopback]:
    async with loopback("alpaca", ledger_url) as running:
        await price(running, "100", "4")
        yield running


class Listener:
    """A session, and all that its feed has told."""

    def __init__(self, session: AlpacaSession) -> None:
        self.session = session
        self.heard: list[FeedItem] = []

    def reports(self, account_id: AccountId = ACCOUNT) -> list[OrderReport]:
        return [item[1] for item in self.heard if item and item[0] == account_id and item[1]]

    async def listen(self) -> None:
        async for item in self.session.reports():
            self.heard.append(item)

    async def until(self, condition: Callable[[], bool]) -> None:
        async def is_so() -> bool:
            return condition()

        await until(is_so, 60)

    async def until_last(self, condition: Callable[[OrderReport], bool]) -> None:
        """The last report is so."""
        await self.until(lambda: any(map(condition, self.reports()[-1:])))


@asynccontextmanager
async def listening(alpaca: Loopback, *accounts: AccountId) -> AsyncIterator[Listener]:
    """Accounts that are signed in and heard."""
    session = AlpacaSession(alpaca.addresses)
    listener = Listener(session)
    reading = asyncio.ensure_future(listener.listen())
    try:
        for account_id in accounts or (ACCOUNT,):
            await sign_in(session, alpaca, account_id)
        await listener.until(lambda: session.is_connected and not session.unheard)
        yield listener
    finally:
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading
        await session.close()


async def sign_in(session: AlpacaSession, alpaca: Loopback, account_id: AccountId) -> None:
    secrets = alpaca.secrets(account_id)
    assert secrets is not None
    answer = await session.sign_in(account_id, Environment.PAPER, secrets)
    assert isinstance(answer, SignedIn)
    assert answer.external_account_id


async def price(alpaca: Loopback, to: str, size: str | None = None) -> None:
    body = {"price": to} if size is None else {"price": to, "size": size}
    assert (await ask(alpaca.engine, "PUT", "/prices/AAPL", body)).is_success


async def faults(alpaca: Loopback, **rates: float) -> None:
    body = {"seed": 1, "faults": rates}
    assert (await ask(alpaca.engine, "PUT", f"/accounts/{ACCOUNT}/faults", body)).is_success


def limit(limit_price: int = 90, **changes: object) -> BrokerOrder:
    return new_order(OrderType.LIMIT, limit_price=Decimal(limit_price), quantity=TEN, **changes)


def changed(order: BrokerOrder, filled: int, quantity: int, limit_price: int, *ids: str) -> BrokerReplacement:
    return BrokerReplacement(
        account_id=order.account_id,
        order=named(order.client_order_id, *ids),
        client_order_id=uuid4().hex,
        terms=Terms(quantity=Decimal(quantity), limit_price=Decimal(limit_price), time_in_force=TimeInForce.DAY),
        filled_quantity=Decimal(filled),
        valid_until=soon(),
    )


async def taken(asked: Outcome) -> str:
    assert isinstance(asked, Accepted), asked
    return asked.broker_order_id


async def found(session: AlpacaSession, order: BrokerOrder, *ids: str) -> OrderReport:
    report = await session.find(order.account_id, named(order.client_order_id, *ids))
    assert report is not None
    return report


def executions(*reports: OrderReport) -> dict[str, Decimal]:
    return {fill.execution_id: fill.quantity for report in reports for fill in report.executions}


async def test_an_order_is_taken_fills_and_is_told_the_same_by_stream_look_up_and_list(alpaca: Loopback) -> None:
    async with listening(alpaca) as listener:
        order = limit(101)
        order_id = await taken(await listener.session.submit(order))
        for _ in range(2):
            await price(alpaca, "100", "4")
        await listener.until(lambda: any(r.status is ReportStatus.FILLED for r in listener.reports()))
        report = await found(listener.session, order)
        (listed,) = await listener.session.orders_since(ACCOUNT, datetime.now(UTC) - timedelta(minutes=5))
        assert report == listed
        assert (report.broker_order_id, report.status) == (order_id, ReportStatus.FILLED)
        assert (report.filled_quantity, report.terms_version) == (TEN, 1)
        assert executions(report) == executions(*listener.reports())
        assert sum(executions(report).values()) == TEN
        assert {r.client_order_id for r in listener.reports()} == {order.client_order_id}


async def test_an_order_replaced_after_a_part_of_it_filled_is_one_order_with_its_total(alpaca: Loopback) -> None:
    async with listening(alpaca) as listener:
        session, order = listener.session, limit(100)
        first = await taken(await session.submit(order))
        await listener.until(lambda: bool(executions(*listener.reports())))
        replaced = changed(order, 4, 20, 99, first)
        last = await taken(await session.replace(replaced))
        assert last != first
        assert alpaca.writes[-1].body["quantity"] == "16"
        await listener.until_last(lambda report: report.broker_order_id == last)
        for report in (await found(session, order, first, last), listener.reports()[-1]):
            assert (report.client_order_id, report.broker_order_id) == (order.client_order_id, last)
            assert report.terms == replaced.terms
            assert (report.terms_version, report.filled_quantity) == (3, Decimal(4))
        await price(alpaca, "99", "100")
        await listener.until_last(lambda report: report.status is ReportStatus.FILLED)
        report = await found(session, order)
        assert executions(report) == executions(*listener.reports()) == {f"{first}:4": 4, f"{last}:16": 16}
        (listed,) = await session.orders_since(ACCOUNT, datetime.now(UTC) - timedelta(minutes=5))
        assert listed == report


async def test_a_replace_counts_what_the_broker_has_filled_and_nobody_has_heard_of(alpaca: Loopback) -> None:
    async with listening(alpaca) as listener:
        session, order = listener.session, limit(100)
        first = await taken(await session.submit(order))
        await listener.until(lambda: bool(executions(*listener.reports())))
        replaced = changed(order, 0, 12, 99, first)
        await taken(await session.replace(replaced))
        assert (await found(session, order)).terms == replaced.terms


async def test_the_last_order_of_a_chain_is_cancelled_whichever_ids_are_known(alpaca: Loopback) -> None:
    async with listening(alpaca) as listener:
        session, order = listener.session, limit()
        first = await taken(await session.submit(order))
        last = await taken(await session.replace(changed(order, 0, 20, 91, first)))
        await listener.until_last(lambda report: report.broker_order_id == last)
        assert isinstance(await session.cancel(ACCOUNT, named(order.client_order_id, last, first), soon()), Accepted)
        await listener.until_last(lambda report: report.status is ReportStatus.CANCELED)
        assert isinstance(await session.cancel(ACCOUNT, named(order.client_order_id, last), soon()), Refused)


async def test_a_cancel_of_an_order_that_another_took_the_place_of_is_in_doubt_and_then_finds_it(
    alpaca: Loopback,
) -> None:
    async with listening(alpaca) as listener:
        order = limit()
        first = await taken(await listener.session.submit(order))
        last = await taken(await listener.session.replace(changed(order, 0, 20, 91, first)))
        async with listening(alpaca) as another:
            name = named(order.client_order_id, first)
            assert isinstance(await another.session.cancel(ACCOUNT, name, soon()), Unknown)
            name = named(order.client_order_id, first, last)
            assert await another.session.cancel(ACCOUNT, name, soon()) == Accepted(last)


async def test_commands_without_the_brokers_id_or_without_a_rest_do_not_leave(alpaca: Loopback) -> None:
    async with listening(alpaca) as listener:
        session, order = listener.session, limit()
        assert isinstance(await session.cancel(ACCOUNT, named("x"), soon()), NotSent)
        assert isinstance(await session.replace(changed(order, 0, 20, 91)), NotSent)
        assert isinstance(await session.replace(changed(order, 0, 20, 91, "A")), NotSent)
        assert alpaca.writes == []


@pytest.mark.parametrize("fault", ["accept_then_reset", "error_500_after_accept", "refused_but_placed"])
async def test_an_order_whose_answer_is_lost_is_unknown_written_once_and_found(alpaca: Loopback, fault: str) -> None:
    await faults(alpaca, **{fault: 1})
    async with listening(alpaca) as listener:
        order = limit()
        assert isinstance(await listener.session.submit(order), Unknown)
        assert (await found(listener.session, order)).status is ReportStatus.WORKING
        assert [write.client_order_id for write in alpaca.writes] == [order.client_order_id]
        # Written again by somebody: the id is taken, which proves nothing but that.
        assert isinstance(await listener.session.submit(order), Unknown)


@pytest.mark.parametrize("fault", ["replace_then_reset", "error_500_after_replace", "refused_but_replaced"])
async def test_a_replace_whose_answer_is_lost_is_unknown_and_shows_in_its_order(alpaca: Loopback, fault: str) -> None:
    await faults(alpaca, **{fault: 1})
    async with listening(alpaca) as listener:
        order = limit()
        first = await taken(await listener.session.submit(order))
        replaced = changed(order, 0, 20, 91, first)
        assert isinstance(await listener.session.replace(replaced), Unknown)
        assert (await found(listener.session, order, first)).terms == replaced.terms
        await listener.until_last(lambda report: report.terms == replaced.terms)
        assert [write.action_type for write in alpaca.writes] == [ActionType.CREATE, ActionType.REPLACE]


async def test_a_definite_no_is_a_refusal_and_calm_is_asked_for_in_seconds(alpaca: Loopback) -> None:
    async with listening(alpaca) as listener:
        await faults(alpaca, refuse=1)
        assert isinstance(await listener.session.submit(limit()), Refused)
        await faults(alpaca, too_many_requests_until=1)
        outcome = await listener.session.submit(limit())
        assert isinstance(outcome, NotSent)
        assert outcome.retry_after


async def test_after_a_gap_the_stream_says_so_before_anything_else(alpaca: Loopback) -> None:
    async with listening(alpaca) as listener:
        listener.heard.clear()
        await faults(alpaca, session_reset=1)
        assert isinstance(await listener.session.submit(limit()), Unknown)
        await listener.until(lambda: (ACCOUNT, None) in listener.heard)
        await faults(alpaca)
        await listener.until(lambda: not listener.session.unheard)
        order = limit()
        await taken(await listener.session.submit(order))
        await listener.until_last(lambda report: report.client_order_id == order.client_order_id)


async def test_an_account_whose_stream_is_begun_anew_is_unheard_meanwhile_and_no_other_is(alpaca: Loopback) -> None:
    async with listening(alpaca, ACCOUNT, NEIGHBOUR) as listener:
        listener.heard.clear()
        listener.session.listen_again([ACCOUNT])
        assert set(listener.session.unheard) == {ACCOUNT}
        await listener.until(lambda: not listener.session.unheard)
        assert listener.heard == [(ACCOUNT, None)]


async def test_all_streams_begin_anew_with_the_feed(alpaca: Loopback) -> None:
    session = AlpacaSession(alpaca.addresses)
    await sign_in(session, alpaca, ACCOUNT)
    for _ in range(2):
        assert not session.is_connected
        assert set(session.unheard) == {ACCOUNT}
        feed = session.reports()
        async with asyncio.timeout(60):
            assert await anext(feed) is None
            assert session.is_connected
            assert await anext(feed) == (ACCOUNT, None)
        assert not session.unheard
        await feed.aclose()
    await session.close()


async def test_an_account_stays_unheard_until_its_beginning_was_read(alpaca: Loopback) -> None:
    session = AlpacaSession(alpaca.addresses)
    await sign_in(session, alpaca, ACCOUNT)
    feed = session.reports()
    async with asyncio.timeout(60):
        assert await anext(feed) is None
        while not session._accounts._feeds[ACCOUNT].is_connected:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        assert set(session.unheard) == {ACCOUNT}
        assert await anext(feed) == (ACCOUNT, None)
    assert not session.unheard
    await feed.aclose()
    await session.close()


async def test_accounts_are_told_of_and_asked_about_apart(alpaca: Loopback) -> None:
    async with listening(alpaca, ACCOUNT, NEIGHBOUR) as listener:
        order, others = limit(), limit(account_id=NEIGHBOUR)
        order_id = await taken(await listener.session.submit(order))
        await taken(await listener.session.submit(others))
        await listener.until(lambda: bool(listener.reports() and listener.reports(NEIGHBOUR)))
        assert {r.client_order_id for r in listener.reports(NEIGHBOUR)} == {others.client_order_id}
        assert await listener.session.find(NEIGHBOUR, named(order.client_order_id)) is None
        assert isinstance(await listener.session.cancel(NEIGHBOUR, named("x", order_id), soon()), Refused)
        await listener.session.sign_out(NEIGHBOUR)
        assert not listener.session.unheard
        assert isinstance(await listener.session.submit(others), NotSent)
        with pytest.raises(NotSignedIn):
            await listener.session.find(NEIGHBOUR, named("x"))


async def test_a_key_is_let_in_at_its_own_environments_host_only(alpaca: Loopback) -> None:
    session = AlpacaSession(alpaca.addresses)
    secrets = alpaca.secrets(ACCOUNT)
    assert secrets is not None
    live = Secrets({**secrets, "key_id": "AK" + secrets["key_id"][2:]})
    for environment, given in ((Environment.LIVE, secrets), (Environment.PAPER, live)):
        answer = await session.sign_in(ACCOUNT, environment, given)
        assert isinstance(answer, SignInRefused)
        assert answer.broker_code == "WRONG_ENVIRONMENT"
    assert isinstance(await session.sign_in(ACCOUNT, Environment.LIVE, live), SignedIn)
    wrong = await session.sign_in(ACCOUNT, Environment.PAPER, Secrets({**secrets, "secret": "wrong"}))
    closed = await session.sign_in(
        ACCOUNT, Environment.PAPER, Secrets({**secrets, "key_id": secrets["key_id"] + "CLOSED"})
    )
    assert isinstance(wrong, SignInRefused)
    assert isinstance(closed, SignInRefused)
    assert closed.broker_code == "ACCOUNT_CLOSED"
    await session.close()


async def test_positions_instruments_and_quotes_are_read_exactly(alpaca: Loopback) -> None:
    async with listening(alpaca) as listener:
        session = listener.session
        await price(alpaca, "100.123456789", "100")
        await taken(await session.submit(replace(limit(101), quantity=Decimal("1.000000001"))))
        await listener.until(lambda: bool(executions(*listener.reports())))
        (position,) = await session.positions(ACCOUNT)
        assert (position.symbol, position.quantity) == (AAPL, Decimal("1.000000001"))
        (instrument,) = await session.instruments(ACCOUNT, [AAPL, Symbol("no such thing")])
        assert (instrument.symbol, instrument.tradable, instrument.fractional) == (AAPL, True, True)
        (quoted,) = await session.quotes(ACCOUNT, [AAPL])
        assert quoted.bid is not None
        assert quoted.bid == quoted.ask == Decimal("100.123456789")
        balances = await session.balances(ACCOUNT)
        cost = EXACT.multiply(position.quantity, quoted.bid)
        assert balances.cash == EXACT.subtract(CASH, EXACT.add(cost, fee(position.quantity, quoted.bid)))
        assert balances.equity == EXACT.add(balances.cash, cost)
        assert (balances.currency, balances.initial_margin, balances.maintenance_margin) == (
            "USD",
            Decimal(0),
            Decimal(0),
        )
