"""Executes commands at the paper broker: match, write the ledger in one transaction, answer."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import asyncpg

from openbell_server.brokers.paper.accounts import Standing, money_refusal, read_standings
from openbell_server.brokers.paper.booking import Update, append, change, market_order, match_all, updates_of
from openbell_server.brokers.paper.days import due_at
from openbell_server.brokers.paper.faults import CommandKind
from openbell_server.brokers.paper.group_commit import GroupCommit
from openbell_server.brokers.paper.ledger import Ledger, OrderKey, broker_order_id, queries
from openbell_server.brokers.paper.listings import unlisted_text
from openbell_server.brokers.paper.market import Market
from openbell_server.brokers.paper.matching import (
    MarketOrder,
    Match,
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
from openbell_server.domain.orders.order_terms import OrderSide, OrderSpec, OrderType, Terms, exact_total

# Account, profile and the client's id.
OrderId = tuple[UUID, str, str | None]


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

    @property
    def order_id(self) -> "OrderId":
        return self.account_id, self.profile.name, self.client_order_id

    def in_time(self, valid_until: datetime, now: datetime) -> bool:
        return now <= valid_until or not self.profile.capabilities.enforces_valid_until


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOrder:
    symbol: Symbol
    side: OrderSide
    spec: OrderSpec
    valid_until: datetime

    @property
    def market_order(self) -> MarketOrder:
        return MarketOrder(side=self.side, spec=self.spec)

    @property
    def terms(self) -> str:
        """The same text for the same terms, however their numbers are written."""
        numbers = (self.spec.quantity, self.spec.limit_price, self.spec.stop_price)
        return " ".join([self.symbol, self.side, self.spec.order_type, *(str(n and n.normalize()) for n in numbers)])


class PaperVenue:
    """Executes commands one after the other; rules apply to accounts that have none of their own."""

    def __init__(self, ledger: Ledger, market: Market, rules: AccountRules) -> None:
        self._ledger = ledger
        self._market = market
        self._rules = rules
        self._submits = GroupCommit(ledger, self._take_all)

    async def submit(self, command: Command, order: NewOrder) -> str:
        """Accept an order, fill what can be filled at once, and return the broker's id."""
        taken = await self._submits((command, order))
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

    async def _take_all(
        self, connection: "asyncpg.Connection[asyncpg.Record]", submits: Sequence[tuple[Command, NewOrder]]
    ) -> list[int | Refusal]:
        """The number of each new order, or its refusal; records either."""
        now = datetime.now(UTC)
        commands = [command for command, _ in submits]
        accounts = await read_standings(connection, {each.account_id for each in commands}, self._market.quote)
        used = await _used_ids(connection, commands)
        decided = [self._take(command, order, accounts, used, now) for command, order in submits]
        numbers = iter(await _record_submits(connection, submits, decided, now))
        updates: list[Update] = []
        taken: list[int | Refusal] = []
        for (_, order), match_or_refusal in zip(submits, decided, strict=True):
            if isinstance(match_or_refusal, Refusal):
                taken.append(match_or_refusal)
                continue
            number = next(numbers)
            taken.append(number)
            updates.append(Update(order_number=number, status=ReportStatus.WORKING, filled_quantity=Decimal(0)))
            updates += updates_of(number, order.market_order, match_or_refusal)
        await append(connection, updates, now)
        return taken

    def _take(
        self,
        command: Command,
        order: NewOrder,
        accounts: dict[UUID, Standing],
        used: dict[OrderId, bool],
        now: datetime,
    ) -> Match | Refusal:
        """What an order does at the market, or why it is refused; updates its account and the used ids."""
        if not command.in_time(order.valid_until, now):
            return Refusal("expired", "the order arrived after its valid_until")
        # A repeated id never gets a definite refusal, because the first order exists.
        if _is_used(command, used):
            return Refusal(DUPLICATE_ID, "an order with this client_order_id exists")
        quote = self._market.quote(order.symbol)
        matched = match(order.market_order, quote)
        standing = accounts[command.account_id]
        refusal = self._refusal(command.account_id, standing, order.symbol, order.market_order, matched)
        if refusal is not None:
            return refusal
        holding = standing.holding(order.symbol, quote.price)
        accounts[command.account_id] = standing.after(holding, order.market_order, matched)
        used[command.order_id] = matched.status is ReportStatus.WORKING
        return matched

    def _refusal(
        self, account_id: UUID, standing: Standing, symbol: Symbol, order: MarketOrder, matched: Match
    ) -> Refusal | None:
        """Why the account may not have such an order."""
        rules = self._ledger.rules.get(account_id, self._rules)
        if not self._market.is_listed(symbol):
            return Refusal(UNKNOWN_SYMBOL, unlisted_text(symbol))
        off_tick = None if rules.any_tick else off_tick_reason(order.spec)
        if off_tick is not None:
            return Refusal("off_tick", off_tick)
        holding = standing.holding(symbol, self._market.quote(symbol).price)
        lacking = money_refusal(standing, holding, order, matched, shorting=rules.shorting)
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
        if await _is_repeated(connection, command):
            return Refusal(DUPLICATE_ID, "a replacement with this client_order_id exists")
        account_id = command.account_id
        # Without the original order.
        accounts = await read_standings(connection, [account_id], self._market.quote, row["number"])
        refusal = self._refusal(account_id, accounts[account_id], row["symbol"], order, match(order, quote))
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


async def _is_repeated(connection: "asyncpg.Connection[asyncpg.Record]", command: Command) -> bool:
    """Whether the id of a replacement is already used."""
    id_class = command.profile.capabilities.id_classes[ActionType.REPLACE]
    if id_class not in {IdClass.ENFORCED, IdClass.FOR_A_WHILE}:
        return False
    repeated: bool = await queries.is_replacement(
        connection,
        account_id=command.account_id,
        profile=command.profile.name,
        client_order_id=command.client_order_id,
        only_open=id_class is IdClass.FOR_A_WHILE,
    )
    return repeated


def _is_used(command: Command, used: Mapping[OrderId, bool]) -> bool:
    """Whether the id of a new order is already used, or for some profiles used by a working order."""
    id_class = command.profile.capabilities.id_classes[ActionType.CREATE]
    if id_class is IdClass.ENFORCED:
        return command.order_id in used
    return id_class is IdClass.FOR_A_WHILE and used.get(command.order_id, False)


async def _used_ids(
    connection: "asyncpg.Connection[asyncpg.Record]", commands: Sequence[Command]
) -> dict[OrderId, bool]:
    """The ids that orders have, and whether one of those is working."""
    rows = queries.used_ids(
        connection,
        account_ids=[command.account_id for command in commands],
        profiles=[command.profile.name for command in commands],
        client_order_ids=[command.client_order_id for command in commands],
    )
    found = [row["is_open"] async for row in rows]
    return {command.order_id: is_open for command, is_open in zip(commands, found, strict=True) if is_open is not None}


async def _record_submits(
    connection: "asyncpg.Connection[asyncpg.Record]",
    submits: Sequence[tuple[Command, NewOrder]],
    decided: Sequence[Match | Refusal],
    now: datetime,
) -> list[int]:
    """Record all submits; returns the numbers of those that are accepted, in their order."""
    commands = [command for command, _ in submits]
    orders = [order for _, order in submits]
    matches = [None if isinstance(each, Refusal) else each for each in decided]
    rows = queries.record_submits(
        connection,
        account_ids=[command.account_id for command in commands],
        profiles=[command.profile.name for command in commands],
        client_order_ids=[command.client_order_id for command in commands],
        received_ats=[command.received_at for command in commands],
        key_ids=[command.key_id for command in commands],
        done=[each.code if isinstance(each, Refusal) else "accepted" for each in decided],
        symbols=[order.symbol for order in orders],
        order_sides=[order.side for order in orders],
        order_types=[order.spec.order_type for order in orders],
        quantities=[order.spec.quantity for order in orders],
        limit_prices=[order.spec.limit_price for order in orders],
        stop_prices=[order.spec.stop_price for order in orders],
        times_in_force=[order.spec.time_in_force for order in orders],
        due_ats=[due_at(order.spec.time_in_force, now) for order in orders],
        statuses=[each and each.status for each in matches],
        triggers=[each and each.triggered for each in matches],
        filled_quantities=[each and exact_total(fill.quantity for fill in each.fills) for each in matches],
        accepted_at=now,
    )
    return sorted([row["number"] async for row in rows])


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
