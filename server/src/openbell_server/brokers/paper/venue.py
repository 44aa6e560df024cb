"""Executes commands at the paper broker: match, write the ledger in one transaction, answer."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from typing import Any, Final
from uuid import UUID

import asyncpg

from openbell_exchange.days import due_at
from openbell_exchange.decisions import (
    DUPLICATE_ID,
    UNKNOWN_ORDER,
    Refusal,
    cancel_refusal,
    order_refusal,
    replace_refusal,
)
from openbell_exchange.faults import CommandKind
from openbell_exchange.matching import MarketOrder, Match, match, replaced
from openbell_exchange.standings import Standing
from openbell_exchange.terms import OrderSide, OrderSpec, OrderType, ReportStatus, Symbol, Terms, exact_total
from openbell_exchange.updates import Update, updates_of
from openbell_server.brokers.paper.accounts import Standings, read_standings
from openbell_server.brokers.paper.booking import (
    OrderId,
    append,
    change,
    market_order,
    match_all,
    record_submits,
    used_ids,
)
from openbell_server.brokers.paper.group_commit import GroupCommit
from openbell_server.brokers.paper.ledger import Ledger, OrderKey, broker_order_id, queries
from openbell_server.brokers.paper.market import Market
from openbell_server.brokers.paper.profiles import Profile
from openbell_server.brokers.paper.wire import REFUSALS, AccountRules
from openbell_server.domain.orders.broker_guarantees import IdClass
from openbell_server.domain.orders.intents import ActionType

# Whether the id of a new order may be that of an order that is closed; other classes allow every id.
_ONLY_OPEN: Final = {IdClass.ENFORCED: False, IdClass.FOR_A_WHILE: True}


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
    def order_id(self) -> OrderId:
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
        self._standings = Standings(ledger, market.quote)

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
        standings = await self._standings.of(connection, {command.account_id for command, _ in submits})
        # Nearly all ids are new, so they are read only if the statement that records the submits finds one.
        taken = await self._record(connection, submits, standings, None, now)
        if taken is None:
            used = await used_ids(connection, [command.order_id for command, _ in submits])
            taken = await self._record(connection, submits, standings, used, now)
        assert taken is not None
        return taken

    async def _record(
        self,
        connection: "asyncpg.Connection[asyncpg.Record]",
        submits: Sequence[tuple[Command, NewOrder]],
        standings: Mapping[UUID, Standing],
        used: Mapping[OrderId, bool] | None,
        now: datetime,
    ) -> list[int | Refusal] | None:
        """Decide and record all submits; without the used ids, returns None and records nothing if one is used."""
        accounts, ids = dict(standings), dict(used or {})
        decided = [self._take(command, order, accounts, ids, now) for command, order in submits]
        numbers = count(1)
        rows = [
            _row(command, order, result, None if isinstance(result, Refusal) else next(numbers), now)
            for (command, order), result in zip(submits, decided, strict=True)
        ]
        updates: list[Update] = []
        for (_, order), row, result in zip(submits, rows, decided, strict=True):
            if not isinstance(result, Refusal):
                first = Update(order_number=row["number"], status=ReportStatus.WORKING, filled_quantity=Decimal(0))
                updates += [first, *updates_of(row["number"], order.market_order, result)]
        last_order = await record_submits(self._ledger, connection, rows, updates, now, check_ids=used is None)
        if last_order is None:
            return None
        self._standings.keep(accounts)
        return [
            result if isinstance(result, Refusal) else last_order + row["number"]
            for row, result in zip(rows, decided, strict=True)
        ]

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
        return order_refusal(
            standing,
            symbol,
            self._market.quote(symbol).price,
            order,
            matched,
            is_listed=self._market.is_listed(symbol),
            shorting=rules.shorting,
            any_tick=rules.any_tick,
        )

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


def _replace_refusal(row: asyncpg.Record | None, terms: Terms, *, in_time: bool) -> Refusal | None:
    if not in_time:
        return Refusal("expired", "the replacement arrived after its valid_until")
    if row is None:
        return Refusal(UNKNOWN_ORDER, "there is no such order")
    return replace_refusal(ReportStatus(row["status"]), row["filled_quantity"], OrderType(row["order_type"]), terms)


def _cancel_refusal(command: Command, row: asyncpg.Record | None, *, in_time: bool) -> Refusal | None:
    if not in_time:
        return Refusal("expired", "the cancel arrived after its valid_until")
    if row is None:
        return Refusal(UNKNOWN_ORDER, "there is no such order")
    return cancel_refusal(ReportStatus(row["status"]), repeats_cancels=command.profile.capabilities.repeats_cancels)


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
    only_open = _ONLY_OPEN.get(command.profile.capabilities.id_classes[ActionType.CREATE])
    return command.order_id in used if only_open is False else bool(only_open) and used.get(command.order_id, False)


def _row(
    command: Command, order: NewOrder, result: Match | Refusal, number: int | None, now: datetime
) -> dict[str, Any]:
    """A submit for `record_submits`; number counts the accepted ones."""
    row: dict[str, Any] = {
        "account_id": command.account_id,
        "profile": command.profile.name,
        "client_order_id": command.client_order_id,
        "received_at": command.received_at,
        "key_id": command.key_id,
        "only_open": _ONLY_OPEN.get(command.profile.capabilities.id_classes[ActionType.CREATE]),
        "number": number,
    }
    if isinstance(result, Refusal):
        assert result.code in REFUSALS, result.code
        return {**row, "done": result.code}
    spec = order.spec
    return {
        **row,
        "done": "accepted",
        "symbol": order.symbol,
        "order_side": order.side,
        "order_type": spec.order_type,
        "quantity": spec.quantity,
        "limit_price": spec.limit_price,
        "stop_price": spec.stop_price,
        "time_in_force": spec.time_in_force,
        "due_at": due_at(spec.time_in_force, now),
        "status": result.status,
        "triggered": result.triggered,
        "filled_quantity": exact_total(fill.quantity for fill in result.fills),
    }


async def _record(connection: "asyncpg.Connection[asyncpg.Record]", command: Command, done: str) -> None:
    assert done == "accepted" or done in REFUSALS, done
    await queries.record_request(
        connection,
        kind=command.kind,
        account_id=command.account_id,
        client_order_id=command.client_order_id,
        received_at=command.received_at,
        key_id=command.key_id,
        done=done,
    )
