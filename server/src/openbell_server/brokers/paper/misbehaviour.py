"""Executes and answers a command under a fault plan."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Final
from uuid import UUID

import asyncpg
import structlog

from openbell_exchange.decisions import DENIED_ALTHOUGH_DONE, TOO_MANY_REQUESTS, Refusal
from openbell_exchange.faults import CommandKind, Fault, Faults, Oddity
from openbell_exchange.money import fee
from openbell_exchange.updates import Update
from openbell_server.brokers.paper.booking import append, change, market_order
from openbell_server.brokers.paper.exchange import Exchange
from openbell_server.brokers.paper.feed import Feeds
from openbell_server.brokers.paper.ledger import Ledger, number_of, queries
from openbell_server.brokers.paper.market import Market
from openbell_server.brokers.paper.plans import Plans
from openbell_server.brokers.paper.venue import Command, PaperVenue
from openbell_server.brokers.paper.wire import REFUSALS, AcceptedBody, RefusalBody
from openbell_server.domain.orders.broker_reports import ReportStatus
from openbell_server.domain.orders.order_terms import EXACT

HANG_SECONDS_MAX: Final = 10
# Long enough for the feed to arrive before the reply.
_ACK_SECONDS: Final = 0.5
_RETRY_AFTER_SECONDS: Final = 2
# Limits for delayed work and counted commands; both are dropped at these limits and at exit.
_LATE_MAX: Final = 1_000
_KEPT_MAX: Final = 100_000
_CORRECTION: Final = Decimal("0.01")
_DENIED: Final = {"code": DENIED_ALTHOUGH_DONE, "text": "rejected by the fault plan, although it was done"}

Act = Callable[[], Awaitable[str]]


class Misbehaviour:
    """Executes commands under the plan of their account; hanging replies end when closing is set."""

    def __init__(
        self, ledger: Ledger, market: Market, venue: PaperVenue, plans: Plans, feeds: Feeds, closing: asyncio.Event
    ) -> None:
        self._ledger = ledger
        self._market = market
        self._venue = venue
        self._plans = plans
        self._feeds = feeds
        self._closing = closing
        self._late: set[asyncio.Task[None]] = set()
        # How often each account sent the same terms, or a command without an id.
        self._sent: Counter[tuple[UUID, int, str]] = Counter()
        # How often each command was lost.
        self._lost: Counter[tuple[UUID, str]] = Counter()

    def close(self) -> None:
        for task in self._late:
            task.cancel()

    async def perform(self, exchange: Exchange, command: Command, act: Act, status: int) -> None:
        plan = self._plans.of(command.account_id)
        key = self._key(command, plan)
        fault = plan.fault_of(command.kind, key, self._lost[command.account_id, key])
        if delay := plan.delay_seconds(command.kind, key):
            await asyncio.sleep(delay)
        if fault is Fault.HANG:
            if len(self._lost) >= _KEPT_MAX:
                self._lost.clear()
            self._lost[command.account_id, key] += 1
            return await self._hang(exchange)
        if fault is Fault.DONE_LATE:
            self._later(plan, act)
            return await self._hang(exchange)
        if fault in {Fault.TOO_MANY, Fault.TOO_MANY_UNTIL}:
            retry_after = _RETRY_AFTER_SECONDS if fault is Fault.TOO_MANY_UNTIL else None
            turned_away = RefusalBody(TOO_MANY_REQUESTS, "too many requests; nothing was done")
            return await exchange.answer(REFUSALS[TOO_MANY_REQUESTS], turned_away, retry_after=retry_after)
        if fault is Fault.REFUSE:
            refusal = Refusal("refused", "the fault plan refuses this command")
            await self._venue.refuse(command, refusal)
            raise refusal
        broker_order_id = await act()
        self._plan_aftermath(plan, command, broker_order_id)
        return await self._answer(exchange, fault, status, AcceptedBody(broker_order_id))

    async def _answer(self, exchange: Exchange, fault: Fault, status: int, answer: AcceptedBody) -> None:
        if fault is Fault.DONE_THEN_HANG:
            return await self._hang(exchange)
        if fault is Fault.DONE_THEN_ALL_RESET:
            self._feeds.reset(exchange.profile.name)
        if fault in {Fault.DONE_THEN_RESET, Fault.DONE_THEN_ALL_RESET}:
            return await exchange.cut()
        if fault is Fault.DONE_THEN_ERROR:
            return await exchange.answer(500, {"error": "the fault plan fails this reply"})
        if fault is Fault.DONE_THEN_DENIED:
            return await exchange.answer(400, _DENIED)
        if fault is Fault.DONE_THEN_WAIT:
            await asyncio.sleep(_ACK_SECONDS)
        return await exchange.answer(status, answer)

    def _plan_aftermath(self, plan: Faults, command: Command, broker_order_id: str) -> None:
        number = number_of(broker_order_id)
        assert number is not None
        order_id = command.client_order_id or broker_order_id
        if command.kind is CommandKind.CANCEL:
            if plan.is_odd(Oddity.FILL_AFTER_CANCEL, order_id):
                self._later(plan, partial(_fill_canceled, self._ledger, self._market, number))
        elif command.kind is CommandKind.SUBMIT:
            for oddity in (Oddity.BUST, Oddity.CORRECT):
                if plan.is_odd(oddity, order_id):
                    later = partial(_change_first_execution, self._ledger, number, take_back=oddity is Oddity.BUST)
                    self._later(plan, later)

    def _later(self, plan: Faults, act: Callable[[], Awaitable[object]]) -> None:
        if len(self._late) < _LATE_MAX:
            task = asyncio.create_task(_do_late(plan.late_ms / 1000, act))
            self._late.add(task)
            task.add_done_callback(self._late.discard)

    def _key(self, command: Command, plan: Faults) -> str:
        """What decides the fault: the id, or else the terms or the account, with how often the account sent them."""
        terms = command.terms if plan.by_terms else ""
        if command.client_order_id and not terms:
            return command.client_order_id
        if len(self._sent) >= _KEPT_MAX:
            self._sent.clear()
        what = terms or str(command.account_id)
        self._sent[command.account_id, plan.seed, what] += 1
        return f"{what} {self._sent[command.account_id, plan.seed, what]}"

    async def _hang(self, exchange: Exchange) -> None:
        waits = [asyncio.ensure_future(wait) for wait in (exchange.gone(), self._closing.wait())]
        await asyncio.wait(waits, timeout=HANG_SECONDS_MAX, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        await exchange.cut()


async def _do_late(seconds: float, act: Callable[[], Awaitable[object]]) -> None:
    await asyncio.sleep(seconds)
    try:
        await act()
    except Refusal:
        # The refusal is recorded, and the client has disconnected.
        return
    except Exception:  # noqa: BLE001 - nobody waits for it
        structlog.get_logger().exception("late_command_failed")


async def _fill_canceled(ledger: Ledger, market: Market, number: int) -> None:
    """Fill the rest of a cancelled order."""
    async with ledger.writing() as connection:
        row: asyncpg.Record | None = await queries.order_by_number(connection, number=number)
        if row is None or row["status"] != ReportStatus.CANCELED:
            return
        remaining, price = market_order(dict(row)).remaining, market.quote(row["symbol"]).price
        filled = Update(
            order_number=number,
            status=ReportStatus.FILLED,
            filled_quantity=row["quantity"],
            ordinal=row["ordinal"] + 1,
            quantity=remaining,
            price=price,
            fee=fee(remaining, price),
        )
        await change(connection, [filled], {number: False})
        await append(connection, [filled], datetime.now(UTC))


async def _change_first_execution(ledger: Ledger, number: int, *, take_back: bool) -> None:
    """Bust an order's first execution or raise its price by a cent; does nothing if there is none."""
    async with ledger.writing() as connection:
        row: asyncpg.Record | None = await queries.first_execution(connection, order_number=number)
        if row is None:
            return
        await queries.change_execution(
            connection,
            order_number=number,
            ordinal=row["ordinal"],
            quantity=Decimal(0) if take_back else row["quantity"],
            price=row["price"] if take_back else EXACT.add(row["price"], _CORRECTION),
            changed_at=datetime.now(UTC),
        )
