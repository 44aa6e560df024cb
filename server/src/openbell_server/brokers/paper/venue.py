"""Executes commands at the paper broker: match, write the ledger in one transaction, answer."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import asyncpg

from openbell_server.brokers.paper.accounts import money_refusal
from openbell_server.brokers.paper.booking import Update, append, change, market_order, match_all, updates_of
from openbell_server.brokers.paper.days import due_at
from openbell_server.brokers.paper.faults import CommandKind
from openbell_server.brokers.paper.ledger import Ledger, OrderKey, broker_order_id, queries
from openbell_server.brokers.paper.listings import unlisted_text
from openbell_server.brokers.paper.market import Market
from openbell_server.brokers.paper.matching import (
    MarketOrder,
    Match,
    after,
    match,
    off_tick_reason,
    replaced,
    unsupported_reason,
)
from openbell_server.brokers.paper.profiles import Profile
from openbell_server.brokers.paper.wire import DUPLICATE_ID, REFUSALS, UNKNOWN_ORDER, UNKNOWN_SYMBOL, AccountRules
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders.broker_guarantees import IdClass
from openbell_server.domain.orders.broker_reports import ReportStatus
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderSide, OrderSpec, OrderType, Terms


class Refusal(Exception):
    """A definite refusal; code is a key of REFUSALS."""

    def __init__(self, code: str, text: str) -> None:
        assert code in REFUSALS, code
        super().__init__(text)
        self.code = code
        self.text = text


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    kind: CommandKind
    profile: Profile
    account_id: UUID
    # For a cancel, the id of the order.
    client_order_id: str | None
    received_at: datetime
    # Of the key that signed it.
    key_id: str | None
    # Of a new order.
    terms: str = ""

    def in_time(self, valid_until: datetime, now: datetime) -> bool:
        return now <= valid_until or not self.profile.capabilities.enforces_valid_until


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOrder:
    symbol: Symbol
    side: OrderSide
    spec: OrderSpec
    valid_until: datetime

    @property
    def terms(self) -> str:
        """The same text for the same terms, however their numbers are written."""
        numbers = (self.spec.quantity, self.spec.limit_price, self.spec.stop_price)
        return " ".join([self.symbol, self.side, self.spec.order_type, *(str(n and n.normalize()) for n in numbers)])


class PaperVenue:
    """Executes one command at a time; rules apply to accounts that have none of their own."""

    def __init__(self, ledger: Ledger, market: Market, rules: AccountRules) -> None:
        self._ledger = ledger
        self._market = market
        self._rules = rules

    async def submit(self, command: Command, order: NewOrder) -> str:
        """Accept an order, fill what can be filled at once, and return the broker's id."""
        async with self._ledger.writing() as connection:
            now = datetime.now(UTC)
            if command.in_time(order.valid_until, now):
                taken = await self._take(connection, command, order, now)
            else:
                taken = Refusal("expired", "the order arrived after its valid_until")
                await _record(connection, command, taken.code)
        if isinstance(taken, Refusal):
            raise taken
        return broker_order_id(taken)

    async def replace(self, command: Command, key: OrderKey, terms: Terms, valid_until: datetime) -> str:
        """Change a working order, fill what can be filled now, and return the broker's id, which does not change."""
        async with self._ledger.writing() as connection:
            now = datetime.now(UTC)
            row = await _order_to_change(connection, command, key)
            refusal = _replace_refusal(row, terms, in_time=command.in_time(valid_until, now))
            if refusal is None:
                refusal = await self._change_terms(connection, command, row, terms, now)
            await _record(connection, command, refusal.code if refusal else "accepted")
        if refusal is not None:
            raise refusal
        assert row is not None
        return broker_order_id(row["number"])

    async def cancel(self, command: Command, key: OrderKey, valid_until: datetime) -> str:
        """Cancel a working order; cancelling it again succeeds if the profile allows it."""
        async with self._ledger.writing() as connection:
            now = datetime.now(UTC)
            row = await _order_to_change(connection, command, key)
            refusal = _cancel_refusal(command, row, in_time=command.in_time(valid_until, now))
            await _record(connection, command, refusal.code if refusal else "accepted")
            if refusal is None and row is not None and row["status"] == ReportStatus.WORKING:
                canceled = Update(
                    order_number=row["number"], status=ReportStatus.CANCELED, filled_quantity=row["filled_quantity"]
                )
                await change(connection, [canceled], {row["number"]: False})
                await append(connection, [canceled], now)
        if refusal is not None:
            raise refusal
        assert row is not None
        return broker_order_id(row["number"])

    async def record_sign_in(self, command: Command) -> None:
        async with self._ledger.writing() as connection:
            await _record(connection, command, "accepted")

    async def refuse(self, command: Command, refusal: Refusal) -> None:
        """Record a command that was refused before it reached the market."""
        async with self._ledger.writing() as connection:
            await _record(connection, command, refusal.code)

    async def _take(
        self, connection: "asyncpg.Connection[asyncpg.Record]", command: Command, order: NewOrder, now: datetime
    ) -> int | Refusal:
        """The number of the new order, or the refusal; records either."""
        asked = MarketOrder(side=order.side, spec=order.spec)
        matched = match(asked, self._market.quote(order.symbol))
        repeated = Refusal(DUPLICATE_ID, "an order with this client_order_id exists")
        refusal = await self._refusal(connection, command.account_id, order.symbol, asked, matched)
        # A repeated id never gets a definite refusal, because the first order exists.
        if await _is_repeated(connection, command, ActionType.CREATE, by_insert=refusal is None):
            refusal = repeated
        if refusal is not None:
            await _record(connection, command, refusal.code)
            return refusal
        number: int | None = await queries.record_order(
            connection,
            account_id=command.account_id,
            profile=command.profile.name,
            client_order_id=command.client_order_id,
            symbol=order.symbol,
            order_side=order.side,
            order_type=order.spec.order_type,
            **asdict(order.spec.terms),
            received_at=command.received_at,
            key_id=command.key_id,
            accepted_at=now,
            due_at=due_at(order.spec.time_in_force, now),
            status=matched.status,
            triggered=matched.triggered,
            filled_quantity=after(asked, matched).filled,
        )
        if number is None:
            return repeated
        accepted = Update(order_number=number, status=ReportStatus.WORKING, filled_quantity=Decimal(0))
        await append(connection, [accepted, *updates_of(number, asked, matched)], now)
        return number

    async def _refusal(
        self,
        connection: "asyncpg.Connection[asyncpg.Record]",
        account_id: UUID,
        symbol: Symbol,
        order: MarketOrder,
        matched: Match,
        except_number: int = 0,
    ) -> Refusal | None:
        """Why the account may not have such an order; for a replace, except_number excludes the original order."""
        rules = self._ledger.rules.get(account_id, self._rules)
        if not self._market.is_listed(symbol):
            return Refusal(UNKNOWN_SYMBOL, unlisted_text(symbol))
        off_tick = None if rules.any_tick else off_tick_reason(order.spec)
        if off_tick is not None:
            return Refusal("off_tick", off_tick)
        lacking = await money_refusal(
            connection,
            account_id,
            symbol,
            order,
            matched,
            self._market.quote,
            shorting=rules.shorting,
            except_number=except_number,
        )
        return None if lacking is None else Refusal(*lacking)

    async def _change_terms(
        self,
        connection: "asyncpg.Connection[asyncpg.Record]",
        command: Command,
        row: asyncpg.Record | None,
        terms: Terms,
        now: datetime,
    ) -> Refusal | None:
        assert row is not None
        quote = self._market.quote(row["symbol"])
        order = replaced(market_order(dict(row)), terms)
        if await _is_repeated(connection, command, ActionType.REPLACE):
            return Refusal(DUPLICATE_ID, "a replacement with this client_order_id exists")
        refusal = await self._refusal(
            connection, command.account_id, row["symbol"], order, match(order, quote), except_number=row["number"]
        )
        if refusal is not None:
            return refusal
        await queries.record_replacement(
            connection,
            account_id=command.account_id,
            client_order_id=command.client_order_id,
            order_number=row["number"],
            **asdict(terms),
            replaced_at=now,
            due_at=due_at(terms.time_in_force, now),
        )
        changed = Update(
            order_number=row["number"], status=ReportStatus.WORKING, filled_quantity=row["filled_quantity"]
        )
        await append(connection, [changed], now)
        await match_all(connection, [{**dict(row), **asdict(terms)}], lambda _, working: match(working, quote), now)
        return None


def spec_of(order_type: OrderType, terms: Terms) -> OrderSpec:
    """Raises Refusal if the terms do not fit the order type."""
    try:
        spec = OrderSpec(order_type=order_type, **asdict(terms))
    except InvalidCommand as problem:
        raise Refusal("invalid_order", problem.detail) from problem
    why_not = unsupported_reason(spec)
    if why_not is not None:
        raise Refusal("invalid_order", why_not)
    return spec


def _replace_refusal(row: asyncpg.Record | None, terms: Terms, *, in_time: bool) -> Refusal | None:
    if not in_time:
        return Refusal("expired", "the replacement arrived after its valid_until")
    if row is None:
        return Refusal(UNKNOWN_ORDER, "there is no such order")
    if row["status"] != ReportStatus.WORKING:
        return Refusal("order_closed", f"the order is {row['status']}")
    if terms.quantity <= row["filled_quantity"]:
        return Refusal("invalid_order", f"{row['filled_quantity']} has filled already")
    try:
        spec_of(OrderType(row["order_type"]), terms)
    except Refusal as refusal:
        return refusal
    return None


def _cancel_refusal(command: Command, row: asyncpg.Record | None, *, in_time: bool) -> Refusal | None:
    if not in_time:
        return Refusal("expired", "the cancel arrived after its valid_until")
    if row is None:
        return Refusal(UNKNOWN_ORDER, "there is no such order")
    is_repeat = row["status"] == ReportStatus.CANCELED and command.profile.capabilities.repeats_cancels
    if row["status"] != ReportStatus.WORKING and not is_repeat:
        return Refusal("order_closed", f"the order is {row['status']}")
    return None


async def _order_to_change(
    connection: "asyncpg.Connection[asyncpg.Record]", command: Command, key: OrderKey
) -> asyncpg.Record | None:
    row: asyncpg.Record | None = await queries.order_to_change(
        connection,
        account_id=command.account_id,
        profile=command.profile.name,
        client_order_id=key.client_order_id,
        number=key.number,
    )
    return row


async def _is_repeated(
    connection: "asyncpg.Connection[asyncpg.Record]", command: Command, what: ActionType, *, by_insert: bool = False
) -> bool:
    """Whether the id is already used; by_insert leaves the check of an ENFORCED id to the insert."""
    id_class = command.profile.capabilities.id_classes[what]
    if id_class not in {IdClass.ENFORCED, IdClass.FOR_A_WHILE} or (by_insert and id_class is IdClass.ENFORCED):
        return False
    ask = queries.is_order if what is ActionType.CREATE else queries.is_replacement
    repeated: bool = await ask(
        connection,
        account_id=command.account_id,
        profile=command.profile.name,
        client_order_id=command.client_order_id,
        only_open=id_class is IdClass.FOR_A_WHILE,
    )
    return repeated


async def _record(connection: "asyncpg.Connection[asyncpg.Record]", command: Command, done: str) -> None:
    await queries.record_request(
        connection,
        kind=command.kind,
        account_id=command.account_id,
        client_order_id=command.client_order_id,
        received_at=command.received_at,
        key_id=command.key_id,
        done=done,
    )
