"""Holds our record against the broker's ledger: what must never be, by the name of the bar it breaks."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from functools import cache
from itertools import pairwise

from openbell_server.application.execution.execute_action import DOOR_SECONDS
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import ActionId, IntentId, Symbol
from openbell_server.domain.identifiers import client_order_id as make_client_order_id
from openbell_server.domain.orders.action_lifecycle import PAST_DOOR, SETTLED, ActionState
from openbell_server.domain.orders.broker_guarantees import RESENDS_MAX
from openbell_server.domain.orders.broker_reports import ReportStatus
from openbell_server.domain.orders.broker_trades import TradeKind
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import Certainty, CloseReason, Order, Standing
from openbell_server.domain.orders.order_reports import SIGHTED_LATE
from openbell_server.domain.orders.order_terms import OrderSide, exact_total
from simulation.memory_database import ActionRow, Book
from simulation.venue import VenueOrder
from simulation.world import World

FLAGGED_SECONDS_MAX = 30

client_order_id = cache(make_client_order_id)


class Bar(StrEnum):
    """What is counted, and must be zero."""

    DOUBLED = "doubled"
    LOST = "lost"
    WRONG = "wrong record"
    WRITES = "written too often"
    UNFLAGGED = "in doubt and not flagged"
    UNSETTLED = "unsettled in the end"
    SURPRISE = "unplanned error"


Finding = tuple[Bar, str]

# Whether a command took effect at the broker, by where its action stands.
SAYS = {
    ActionState.ACKED: True,
    ActionState.REFUSED: False,
    ActionState.FAILED: False,
    ActionState.SKIPPED: False,
}

COMMANDS = {ActionType.CREATE: "submit", ActionType.REPLACE: "replace", ActionType.CANCEL: "cancel"}
FILLED = '"status":"FILLED"'
ENDS = {
    ReportStatus.FILLED: CloseReason.FILLED,
    ReportStatus.CANCELED: CloseReason.CANCELED,
    ReportStatus.EXPIRED: CloseReason.EXPIRED,
    ReportStatus.REJECTED: CloseReason.REJECTED,
}


@dataclass(frozen=True, slots=True)
class Checker:
    """Looks at a world that has come to rest."""

    world: World
    accepted: list[ActionId]

    def findings(self) -> list[Finding]:
        """Everything that must not be."""
        return [
            *((Bar.SURPRISE, words) for words in self.world.surprises),
            *self._doubled(),
            *self._lost(),
            *(finding for book in self.world.database.books.values() for finding in self._book(book)),
        ]

    def is_settled(self) -> bool:
        """Whether there is nothing left to wait for."""
        rows = [row for book in self.world.database.books.values() for row in book.actions.values()]
        return all(row.state in {*SETTLED, ActionState.QUEUED} or row.flagged_at is not None for row in rows)

    def _doubled(self) -> Iterator[Finding]:
        ours = {client_order_id(action_id) for action_id in self.accepted}
        for origin, count in Counter(order.origin for order in self.world.venue.orders.values()).items():
            if count > 1:
                yield Bar.DOUBLED, f"{origin} is {count} orders at the broker"
            if origin not in ours:
                yield Bar.WRONG, f"{origin} is an order that nobody asked for"

    def _lost(self) -> Iterator[Finding]:
        recorded = {action_id for book in self.world.database.books.values() for action_id in book.actions}
        for action_id in self.accepted:
            if action_id not in recorded:
                yield Bar.LOST, f"{action_id} was accepted and is not on record"

    def _book(self, book: Book) -> Iterator[Finding]:
        at_broker = {order.origin: order for order in self.world.venue.orders.values()}
        for intent_id, action_ids in book.intents.items():
            rows = [book.actions[action_id] for action_id in action_ids]
            order = book.orders[intent_id]
            truth = at_broker.get(client_order_id(rows[0].action_id))
            for place, row in enumerate(rows):
                is_held_up = any(before.flagged_at and before.state not in SETTLED for before in rows[:place])
                if row.state is ActionState.QUEUED and not is_held_up:
                    yield Bar.LOST, f"{row.action_type} {client_order_id(row.action_id)} was never tried"
                yield from self._doubt(row)
                yield from self._action(row, truth, order)
                yield from self._late(row, truth)
            yield from self._writes(rows)
            yield from self._order_of_writes(rows)
            yield from self._in_time(rows[0], truth)
            if all(row.state in SETTLED for row in rows):
                yield from self._order(intent_id, order, truth)
        yield from self._totals(book)

    def _action(self, row: ActionRow, truth: VenueOrder | None, order: Order) -> Iterator[Finding]:
        name = f"{row.action_type} {client_order_id(row.action_id)} {row.state}"
        took_effect = self._took_effect(row, truth)
        if row.state is ActionState.REFUSED and truth is not None and truth.was_full:
            # It was cancelled, and then filled all the same: nothing came of the cancel.
            took_effect = took_effect and row.action_type is not ActionType.CANCEL
        # Later than the broker is said to be at most: the order must say so, whatever was concluded before.
        is_reopened = self._is_late(row, truth) and order.standing is not Standing.NONE
        if row.state in SAYS and SAYS[row.state] != took_effect and not is_reopened:
            yield Bar.WRONG, f"{name}, and at the broker it {'took' if took_effect else 'took no'} effect"

    def _doubt(self, row: ActionRow) -> Iterator[Finding]:
        """What stays in doubt is flagged, and in time."""
        name = f"{row.action_type} {client_order_id(row.action_id)} {row.state}"
        if row.state in PAST_DOOR and row.flagged_at is None:
            yield Bar.UNSETTLED, name
        if row.unknown_since is None or (row.reason is not None and row.reason.code == SIGHTED_LATE):
            return
        over = row.flagged_at or row.settled_at or self.world.clock()
        if over - row.unknown_since > timedelta(seconds=FLAGGED_SECONDS_MAX):
            yield Bar.UNFLAGGED, f"{name} for {over - row.unknown_since}"

    def _late(self, row: ActionRow, truth: VenueOrder | None) -> Iterator[Finding]:
        """Only a broker that was later than it is said to be may prove us wrong."""
        if row.reason is not None and row.reason.code == SIGHTED_LATE and not self._is_late(row, truth):
            yield Bar.WRONG, f"{client_order_id(row.action_id)} was called absent, and the broker had it in time"

    def _is_late(self, row: ActionRow, truth: VenueOrder | None) -> bool:
        if truth is None:
            return False
        command_id = truth.origin if row.action_type is ActionType.CANCEL else client_order_id(row.action_id)
        return (COMMANDS[row.action_type], command_id) in self.world.venue.late

    def _took_effect(self, row: ActionRow, truth: VenueOrder | None) -> bool:
        if truth is None:
            return False
        if row.action_type is ActionType.CREATE:
            return True
        if row.action_type is ActionType.REPLACE:
            return client_order_id(row.action_id) in truth.replaced_by
        return truth.was_cancelled

    def _writes(self, rows: list[ActionRow]) -> Iterator[Finding]:
        order_id = client_order_id(rows[0].action_id)
        sent = Counter((write.command, write.command_id) for write in self.world.venue.writes_of(order_id))
        allowed: Counter[tuple[str, str]] = Counter()
        for row in rows:
            if row.state is ActionState.SKIPPED:
                continue
            if row.action_type is ActionType.CANCEL:
                allowed["cancel", order_id] += 1000 if self.world.profile.repeats_cancels else 1
            else:
                allowed[COMMANDS[row.action_type], client_order_id(row.action_id)] = 1 + (
                    RESENDS_MAX if self.world.profile.capabilities.may_repeat(row.action_type) else 0
                )
        for (command, command_id), count in (sent - allowed).items():
            yield Bar.WRITES, f"{command} {command_id}: {count} more than allowed"

    def _order_of_writes(self, rows: list[ActionRow]) -> Iterator[Finding]:
        """Nothing is written before what came before it of its intent is settled; a cancel, before it is in doubt."""
        order_id = client_order_id(rows[0].action_id)
        for before, row in pairwise(rows):
            command_id = order_id if row.action_type is ActionType.CANCEL else client_order_id(row.action_id)
            command = COMMANDS[row.action_type]
            writes = [
                w for w in self.world.venue.writes_of(order_id) if (w.command, w.command_id) == (command, command_id)
            ]
            if not writes or (before.reason is not None and before.reason.code == SIGHTED_LATE):
                continue
            written = self.world.at(writes[0].at)
            is_in_doubt = before.unknown_since is not None and before.unknown_since <= written
            if row.action_type is ActionType.CANCEL and is_in_doubt:
                continue
            if before.settled_at is None or before.settled_at > written:
                yield Bar.WRITES, f"{command} {command_id} before {before.action_type} was settled"

    def _in_time(self, create: ActionRow, truth: VenueOrder | None) -> Iterator[Finding]:
        """A broker that is told until when takes nothing later."""
        if truth is None or create.send_started_at is None or not self.world.profile.enforces_valid_until:
            return
        if truth.accepted_at > create.send_started_at + timedelta(seconds=DOOR_SECONDS):
            yield Bar.WRONG, f"{truth.origin} was taken after its door had closed"

    def _order(self, intent_id: IntentId, order: Order, truth: VenueOrder | None) -> Iterator[Finding]:
        if truth is None:
            if order.standing is not Standing.CLOSED:
                yield Bar.WRONG, f"{intent_id} is {order.standing}, and the broker has no such order"
            elif order.filled_quantity:
                yield Bar.WRONG, f"{intent_id} has fills, and the broker has no such order"
            return
        if (order.filled_quantity, order.filled_value) != (truth.filled, truth.value):
            yield Bar.WRONG, f"{intent_id} has {order.filled_quantity} filled, and at the broker {truth.filled}"
        expected = (Standing.WORKING, None) if truth.status not in ENDS else (Standing.CLOSED, ENDS[truth.status])
        if (order.standing, order.close_reason) != expected:
            yield Bar.WRONG, f"{intent_id} is {order.standing} {order.close_reason}, and at the broker {truth.status}"
        if order.terms != truth.terms:
            yield Bar.WRONG, f"{intent_id} has terms {order.terms}, and at the broker {truth.terms}"
        if order.certainty is not Certainty.CONFIRMED:
            yield Bar.WRONG, f"{intent_id} is in doubt, and none of its actions is"

    def _totals(self, book: Book) -> Iterator[Finding]:
        """Executions one by one, the position, and the log without a gap; of what is in doubt nothing is known yet."""
        doubtful = {
            client_order_id(action_ids[0])
            for action_ids in book.intents.values()
            if any(book.actions[action_id].state in PAST_DOOR for action_id in action_ids)
        }
        orders = [
            order
            for order in self.world.venue.orders.values()
            if order.account_id == book.account.account_id and order.origin not in doubtful
        ]
        told = {fill.execution_id: fill for order in orders for fill in order.fills}
        if not told.items() <= {key: fill for key, (_, fill) in book.executions.items()}.items():
            yield Bar.WRONG, f"{book.account.account_id} misses executions that the broker has"
        known = {fill.execution_id for order in self.world.venue.orders.values() for fill in order.fills}
        if not book.executions.keys() <= known:
            yield Bar.WRONG, f"{book.account.account_id} has executions that the broker has not"
        position = exact_total(
            fill.quantity if order.order_side is OrderSide.BUY else -fill.quantity
            for order in orders
            for fill in order.standing
        )
        if not doubtful and exact_total(book.positions.values() or [Decimal(0)]) != position:
            yield Bar.WRONG, f"{book.account.account_id} has position {book.positions}, and at the broker {position}"
        if book.adjustments:
            yield Bar.WRONG, f"{book.account.account_id} was adjusted by {book.adjustments}, and nobody else traded"
        if [event.number for event in book.events] != [*range(1, len(book.events) + 1)]:
            yield Bar.WRONG, f"{book.account.account_id} has a gap in its log"
        for event in book.events:
            if FILLED in event.body and _is_less_than_full(event.body):
                yield Bar.WRONG, f"{event.intent_id} was called filled before it was"
        yield from self._trades(book, doubtful=bool(doubtful))
        if book.halt_code is not None:
            yield Bar.WRONG, f"{book.account.account_id} was halted: {book.halt_code}"

    def _trades(self, book: Book, *, doubtful: bool) -> Iterator[Finding]:
        """Each execution is told once, each trade goes on from the one before, and the last agree with the books."""
        held: dict[Symbol, Decimal] = {}
        filled: dict[IntentId, Decimal] = {}
        standing: dict[str, Decimal] = {}
        recorded: Counter[str] = Counter()
        for event in book.events:
            if event.kind is not EventKind.BROKER_TRADE or event.intent_id is None:
                continue
            told = json.loads(event.body)
            execution_id, symbol = told["execution_id"], Symbol(told["symbol"])
            recorded[execution_id] += told["kind"] == TradeKind.NORMAL
            after = Decimal(0) if told["kind"] == TradeKind.BUST else Decimal(told["quantity"])
            change = after - standing.get(execution_id, Decimal(0))
            standing[execution_id] = after
            filled[event.intent_id] = filled.get(event.intent_id, Decimal(0)) + change
            held[symbol] = held.get(symbol, Decimal(0)) + (change if told["order_side"] == OrderSide.BUY else -change)
            if (Decimal(told["cumulative_quantity"]), Decimal(told["position"])) != (
                filled[event.intent_id],
                held[symbol],
            ):
                yield Bar.WRONG, f"{event.intent_id} has a trade that does not go on from the one before: {told}"
        if recorded != Counter(book.executions.keys()):
            yield Bar.WRONG, f"{book.account.account_id} has executions without a trade each, or trades without one"
        if not doubtful:
            yield from self._fees(book)
        if any(filled.get(intent_id, 0) != order.filled_quantity for intent_id, order in book.orders.items()):
            yield Bar.WRONG, f"{book.account.account_id} has an order that its trades do not add up to"

    def _fees(self, book: Book) -> Iterator[Finding]:
        """The last trade of each execution has the fee that the broker charges for it."""
        orders = [o for o in self.world.venue.orders.values() if o.account_id == book.account.account_id]
        fills = {
            fill.execution_id: (fill, order.latest.get(fill.execution_id)) for order in orders for fill in order.fills
        }
        charged = {
            execution_id: fill.fee if change is None or change.fee is None else change.fee
            for execution_id, (fill, change) in fills.items()
        }
        bodies = [json.loads(event.body) for event in book.events if event.kind is EventKind.BROKER_TRADE]
        told = {body["execution_id"]: Decimal(body["fee"]) for body in bodies}
        if told != charged:
            yield Bar.WRONG, f"{book.account.account_id} has fees {told}, and at the broker {charged}"


@cache
def _is_less_than_full(body: str) -> bool:
    told = json.loads(body)
    return Decimal(told["filled_quantity"]) < Decimal(told["quantity"])
