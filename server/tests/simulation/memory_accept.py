"""The accept step in memory: what is recorded of a command, and when it is not."""

from dataclasses import replace

from openbell_server.application.ports.account_transaction import BrokerAccount, OrderTerms
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import ActionId, IntentId
from openbell_server.domain.orders.intents import ActionType, CancelIntent, Command, CreateIntent, ReplaceIntent
from openbell_server.domain.orders.order_aggregate import Certainty, Order, Pending, Standing
from openbell_server.domain.orders.order_terms import OrderSpec, ReplacementSpec, Terms
from simulation.memory_database import ActionRow, Book, Event, MemoryDatabase, Transaction
from simulation.memory_queues import MemoryOutboxStore

TYPES = {CreateIntent: ActionType.CREATE, ReplaceIntent: ActionType.REPLACE, CancelIntent: ActionType.CANCEL}


async def accept(
    database: MemoryDatabase,
    outbox: MemoryOutboxStore,
    account: BrokerAccount,
    action_id: ActionId,
    intent_id: IntentId,
    command: Command,
) -> bool:
    """Record a command with its outbox row, once; whether it is on record."""
    async with AcceptTransaction(database, account, outbox=outbox) as transaction:
        book = transaction.book
        if action_id in book.actions:
            return True
        if not _is_allowed(book, intent_id, command):
            return False
        if isinstance(command, CreateIntent):
            book.orders[intent_id] = Order(terms=_terms(command.spec, None))
            book.terms[intent_id] = OrderTerms(
                symbol=command.symbol,
                order_side=command.order_side,
                order_type=command.spec.order_type,
                route_strategy=command.route_strategy,
                client_reference_id=command.client_reference_id,
            )
        _record(transaction, action_id, intent_id, command)
        transaction.announced = action_id
    return True


class AcceptTransaction(Transaction):
    """A transaction that writes an outbox row beside the account's book."""

    def __init__(self, database: MemoryDatabase, account: BrokerAccount, *, outbox: MemoryOutboxStore) -> None:
        """Begin nothing yet."""
        super().__init__(database, account)
        self.outbox = outbox
        self.announced: ActionId | None = None

    def commit(self) -> None:
        """Both or neither."""
        super().commit()
        if self.announced is not None:
            self.outbox.add(self.account, self.announced)


def _record(transaction: Transaction, action_id: ActionId, intent_id: IntentId, command: Command) -> None:
    book, now = transaction.book, transaction.database.clock()
    known, order = book.intents.get(intent_id, ()), book.orders[intent_id]
    book.intents[intent_id] = (*known, action_id)
    book.actions[action_id] = ActionRow(
        action_id=action_id,
        intent_id=intent_id,
        seq=len(known) + 1,
        number=len(book.actions) + 1,
        action_type=TYPES[type(command)],
        queued_at=now,
        updated_at=now,
        replacement=_terms(command.spec, order) if isinstance(command, ReplaceIntent) else None,
    )
    book.events.append(Event(len(book.events) + 1, EventKind.INTENT_ACTION, intent_id, len(known) + 1, "{}"))
    if isinstance(command, CancelIntent):
        replaces = order.pending in {Pending.NONE, Pending.REPLACE}
        book.write_order(intent_id, replace(order, pending=Pending.CANCEL if replaces else order.pending))
    if isinstance(command, ReplaceIntent):
        waits = order.pending is Pending.NONE
        book.write_order(intent_id, replace(order, pending=Pending.REPLACE if waits else order.pending))


def _terms(spec: OrderSpec | ReplacementSpec, order: Order | None) -> Terms:
    """What a spec asks for; a time in force that is not said stays."""
    time_in_force = spec.time_in_force or (order.terms.time_in_force if order else None)
    assert time_in_force is not None
    return Terms(
        quantity=spec.quantity,
        limit_price=spec.limit_price,
        stop_price=spec.stop_price,
        time_in_force=time_in_force,
    )


def _is_allowed(book: Book, intent_id: IntentId, command: Command) -> bool:
    if isinstance(command, CreateIntent):
        return True
    if intent_id not in book.intents or book.orders[intent_id].standing is Standing.CLOSED:
        return False
    order = book.orders[intent_id]
    if isinstance(command, ReplaceIntent):
        is_unknown = order.certainty is Certainty.UNKNOWN and order.pending is Pending.NEW
        return not is_unknown and command.spec.quantity > order.filled_quantity
    rows = [book.actions[action_id] for action_id in book.intents[intent_id]]
    return not any(row.action_type is ActionType.CANCEL and row.settled_at is None for row in rows)
