"""What the paper broker does with a command: match it, write the ledger in one transaction, answer."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import asyncpg

from openbell_server.brokers.paper.faults import CommandKind
from openbell_server.brokers.paper.ledger import PAGE, Ledger, broker_order_id, queries
from openbell_server.brokers.paper.matching import Match, match, reference_price
from openbell_server.brokers.paper.wire import DUPLICATE_ID, REFUSALS, UNKNOWN_ORDER
from openbell_server.domain.broker_orders import ReportStatus
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders import OrderSide, OrderSpec, OrderType, Terms, TimeInForce


class Refusal(Exception):
    """The command is not done, for good."""

    def __init__(self, code: str, text: str) -> None:
        """Code is a row of REFUSALS."""
        assert code in REFUSALS, code
        super().__init__(text)
        self.code = code
        self.text = text


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What every command carries."""

    kind: CommandKind
    account_id: UUID
    client_order_id: str | None
    received_at: datetime
    # Of the key that it is signed with.
    key_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOrder:
    """The order asked for."""

    symbol: Symbol
    side: OrderSide
    spec: OrderSpec
    valid_until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Update:
    """One step of an order; ordinal, quantity and price are those of its execution, if it is one."""

    order_number: int
    status: ReportStatus
    filled_quantity: Decimal
    ordinal: int | None = None
    quantity: Decimal | None = None
    price: Decimal | None = None


class PaperVenue:
    """The market: orders in, executions out, one command at a time."""

    def __init__(self, ledger: Ledger) -> None:
        """The ledger holds all state."""
        self._ledger = ledger

    async def submit(self, command: Command, order: NewOrder) -> str:
        """Take an order, fill what fills at once, and say the broker's id for it."""
        async with self._ledger.writing() as connection:
            now = datetime.now(UTC)
            number = None
            if now <= order.valid_until:
                number = await self._take(connection, command, order, now)
                refusal = Refusal(DUPLICATE_ID, "an order with this client_order_id exists")
            else:
                refusal = Refusal("expired", "the order arrived after its valid_until")
                await _record(connection, command, refusal.code)
        if number is None:
            raise refusal
        return broker_order_id(number)

    async def replace(self, command: Command, order_client_id: str, terms: Terms, valid_until: datetime) -> str:
        """Change an order that works, fill what fills now, and say the broker's id for it, which stays."""
        async with self._ledger.writing() as connection:
            now = datetime.now(UTC)
            row: asyncpg.Record | None = await queries.order_to_change(
                connection, account_id=command.account_id, client_order_id=order_client_id
            )
            refusal = _replace_refusal(row, terms, now, valid_until)
            if refusal is None and not await self._change_terms(connection, command, row, terms, now):
                refusal = Refusal(DUPLICATE_ID, "a replacement with this client_order_id exists")
            await _record(connection, command, refusal.code if refusal else "accepted")
        if refusal is not None:
            raise refusal
        assert row is not None
        return broker_order_id(row["number"])

    async def cancel(self, command: Command, valid_until: datetime) -> str:
        """End an order that works; to cancel it again is no mistake."""
        async with self._ledger.writing() as connection:
            now = datetime.now(UTC)
            row: asyncpg.Record | None = await queries.order_to_change(
                connection, account_id=command.account_id, client_order_id=command.client_order_id
            )
            refusal = _cancel_refusal(row, now, valid_until)
            await _record(connection, command, refusal.code if refusal else "accepted")
            if refusal is None and row is not None and row["status"] == ReportStatus.WORKING:
                canceled = _Update(
                    order_number=row["number"],
                    status=ReportStatus.CANCELED,
                    filled_quantity=row["filled_quantity"],
                )
                await _change(connection, [canceled], {row["number"]: False})
                await _append(connection, [canceled], now)
        if refusal is not None:
            raise refusal
        assert row is not None
        return broker_order_id(row["number"])

    async def let_in(self, command: Command) -> None:
        """Record that an account signed in."""
        async with self._ledger.writing() as connection:
            await _record(connection, command, "accepted")

    async def refuse(self, command: Command, refusal: Refusal) -> None:
        """Record that a command arrived and was refused before it came to the market."""
        async with self._ledger.writing() as connection:
            await _record(connection, command, refusal.code)

    async def set_price(self, symbol: Symbol, price: Decimal) -> None:
        """Set a reference price; resting orders trigger and fill."""
        async with self._ledger.writing() as connection:
            await queries.set_price(connection, symbol=symbol, price=price)
            after = 0
            while rows := [
                row async for row in queries.working_orders(connection, symbol=symbol, after=after, page=PAGE)
            ]:
                await _match_resting(connection, rows, price)
                after = rows[-1]["number"]
        self._ledger.prices[symbol] = price

    async def _take(
        self, connection: "asyncpg.Connection[asyncpg.Record]", command: Command, order: NewOrder, now: datetime
    ) -> int | None:
        matched = match(order.side, order.spec, self._price(order.symbol))
        filled = sum((fill.quantity for fill in matched.fills), Decimal(0))
        number: int | None = await queries.record_order(
            connection,
            account_id=command.account_id,
            client_order_id=command.client_order_id,
            symbol=order.symbol,
            order_side=order.side,
            order_type=order.spec.order_type,
            quantity=order.spec.quantity,
            limit_price=order.spec.limit_price,
            stop_price=order.spec.stop_price,
            time_in_force=order.spec.time_in_force,
            received_at=command.received_at,
            key_id=command.key_id,
            accepted_at=now,
            status=matched.status,
            triggered=matched.triggered,
            filled_quantity=filled,
        )
        if number is not None:
            accepted = _Update(order_number=number, status=ReportStatus.WORKING, filled_quantity=Decimal(0))
            await _append(connection, [accepted, *_updates(number, matched)], now)
        return number

    async def _change_terms(
        self,
        connection: "asyncpg.Connection[asyncpg.Record]",
        command: Command,
        row: asyncpg.Record | None,
        terms: Terms,
        now: datetime,
    ) -> bool:
        """Write what the order is now and match it anew; whether the replacement's client id was free."""
        assert row is not None
        number: int | None = await queries.record_replacement(
            connection,
            account_id=command.account_id,
            client_order_id=command.client_order_id,
            order_number=row["number"],
            quantity=terms.quantity,
            limit_price=terms.limit_price,
            stop_price=terms.stop_price,
            time_in_force=terms.time_in_force,
            replaced_at=now,
        )
        if number is None:
            return False
        replaced = _Update(order_number=number, status=ReportStatus.WORKING, filled_quantity=row["filled_quantity"])
        await _append(connection, [replaced], now)
        await _match_resting(connection, [{**dict(row), **asdict(terms)}], self._price(row["symbol"]))
        return True

    def _price(self, symbol: Symbol) -> Decimal:
        return self._ledger.prices.get(symbol) or reference_price(symbol)


def spec_of(order_type: OrderType, terms: Terms) -> OrderSpec:
    """An order of a kind with these terms, if they fit the kind."""
    try:
        return OrderSpec(order_type=order_type, **asdict(terms))
    except InvalidCommand as problem:
        raise Refusal("invalid_order", problem.detail) from problem


def _replace_refusal(row: asyncpg.Record | None, terms: Terms, now: datetime, valid_until: datetime) -> Refusal | None:
    if now > valid_until:
        return Refusal("expired", "the replacement arrived after its valid_until")
    if row is None:
        return Refusal(UNKNOWN_ORDER, "there is no order with this client_order_id")
    if row["status"] != ReportStatus.WORKING:
        return Refusal("order_closed", f"the order is {row['status']}")
    if terms.quantity <= row["filled_quantity"]:
        return Refusal("invalid_order", f"{row['filled_quantity']} has filled already")
    try:
        spec_of(OrderType(row["order_type"]), terms)
    except Refusal as refusal:
        return refusal
    return None


def _cancel_refusal(row: asyncpg.Record | None, now: datetime, valid_until: datetime) -> Refusal | None:
    if now > valid_until:
        return Refusal("expired", "the cancel arrived after its valid_until")
    if row is None:
        return Refusal(UNKNOWN_ORDER, "there is no order with this client_order_id")
    if row["status"] not in {ReportStatus.WORKING, ReportStatus.CANCELED}:
        return Refusal("order_closed", f"the order is {row['status']}")
    return None


def _updates(number: int, matched: Match) -> list[_Update]:
    """What happens to an order that has no execution yet: each fill, or its end."""
    if not matched.fills and matched.status is not ReportStatus.WORKING:
        return [_Update(order_number=number, status=matched.status, filled_quantity=Decimal(0))]
    updates: list[_Update] = []
    filled = Decimal(0)
    for ordinal, fill in enumerate(matched.fills, start=1):
        filled += fill.quantity
        last = ordinal == len(matched.fills)
        updates.append(
            _Update(
                order_number=number,
                status=matched.status if last else ReportStatus.WORKING,
                filled_quantity=filled,
                ordinal=ordinal,
                quantity=fill.quantity,
                price=fill.price,
            )
        )
    return updates


async def _match_resting(
    connection: "asyncpg.Connection[asyncpg.Record]", rows: Sequence[Mapping[str, Any]], price: Decimal
) -> None:
    updates: list[_Update] = []
    ends: list[_Update] = []
    triggers: dict[int, bool] = {}
    for row in rows:
        spec = OrderSpec(
            order_type=OrderType(row["order_type"]),
            quantity=row["quantity"],
            limit_price=row["limit_price"],
            stop_price=row["stop_price"],
            time_in_force=TimeInForce(row["time_in_force"]),
        )
        matched = match(OrderSide(row["order_side"]), spec, price, triggered=row["triggered"])
        steps = _updates(row["number"], matched)
        updates += steps
        # A stop that triggers without a fill changes too, though nobody is told.
        if steps or matched.triggered != row["triggered"]:
            resting = _Update(order_number=row["number"], status=matched.status, filled_quantity=Decimal(0))
            ends.append(steps[-1] if steps else resting)
            triggers[row["number"]] = matched.triggered
    if ends:
        await _change(connection, ends, triggers)
        await _append(connection, updates, datetime.now(UTC))


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


async def _change(
    connection: "asyncpg.Connection[asyncpg.Record]", ends: Sequence[_Update], triggers: dict[int, bool]
) -> None:
    await queries.change_orders(
        connection,
        numbers=[end.order_number for end in ends],
        statuses=[end.status for end in ends],
        triggers=[triggers[end.order_number] for end in ends],
        filled_quantities=[end.filled_quantity for end in ends],
    )


async def _append(
    connection: "asyncpg.Connection[asyncpg.Record]", updates: Sequence[_Update], happened_at: datetime
) -> None:
    if updates:
        await queries.append_updates(
            connection,
            order_numbers=[update.order_number for update in updates],
            statuses=[update.status for update in updates],
            filled_quantities=[update.filled_quantity for update in updates],
            ordinals=[update.ordinal for update in updates],
            quantities=[update.quantity for update in updates],
            prices=[update.price for update in updates],
            happened_at=happened_at,
        )
