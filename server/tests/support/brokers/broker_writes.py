"""Judges what left for a broker: every command once, unless the broker makes a repeat harmless; pure."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final
from uuid import UUID

from openbell import Action
from openbell_server.application.ports.broker import BrokerCapabilities
from openbell_server.devtools.demo.ledgers import Books
from openbell_server.domain.identifiers import ActionId, client_order_id
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.broker_guarantees import IdClass
from openbell_server.domain.orders.intents import ActionType

# A command whose id the broker enforces for good may leave so often after its first time, always with that id.
REPEATS_MAX: Final = 2
_NUMBERS: Final = ("quantity", "limit_price")
# Nothing left for a broker before one of these.
_UNSENT: Final = frozenset({ActionState.QUEUED, ActionState.SKIPPED})


@dataclass(frozen=True, slots=True)
class Write:
    """One command as it left: whole, or torn by the end of its connection."""

    action_type: ActionType
    account_id: str
    # The order as the path names it; a new one has no name yet.
    order: str | None
    body: Mapping[str, str | None] = field(default_factory=dict)
    whole: bool = True
    # When its last byte was seen, in seconds since the epoch.
    seen_at: float = field(default=0.0, compare=False)

    @property
    def client_order_id(self) -> str | None:
        """The command's own id, where it bears one."""
        return self.body.get("client_order_id")


def excess_writes(
    writes: Sequence[Write],
    books: Books,
    resends: Mapping[str, int],
    brokers: Mapping[str, BrokerCapabilities],
) -> Iterator[str]:
    """A sentence for every command that left more often than it may.

    Once is allowed to each that passed its door, and once more for every time that was recorded beforehand as a repeat,
    where the broker of its account makes that harmless. A torn write is no command to whoever receives it.
    """
    allowed: Counter[tuple[ActionType, str, str]] = Counter()
    for action, names in _sent(books):
        repeats = allowed_repeats(ActionType(action.action_type), resends.get(action.id, 0), brokers[action.account_id])
        for name in names:
            allowed[ActionType(action.action_type), action.account_id, name] += 1 + repeats
    counted = Counter((write.action_type, write.account_id, _name(write)) for write in writes if write.whole)
    for place, times in counted.items():
        if times > allowed[place]:
            action_type, account_id, name = place
            yield f"{action_type} {name} of {account_id} left {times} times, and may {allowed[place]} times"


def allowed_repeats(action_type: ActionType, recorded: int, able: BrokerCapabilities) -> int:
    """How many of the repeats that were recorded are allowed."""
    if action_type is ActionType.CANCEL:
        return recorded if able.repeats_cancels else 0
    return min(recorded, REPEATS_MAX) if able.id_classes.get(action_type) is IdClass.ENFORCED else 0


def _name(write: Write) -> str:
    """What tells one command from others where it is written; one without an id goes by what it asks for."""
    if write.action_type is ActionType.CANCEL:
        return write.order or ""
    if write.client_order_id is not None:
        return write.client_order_id
    body = write.body
    quantity, limit_price = (None if text is None else Decimal(text) for text in map(body.get, _NUMBERS))
    return _terms(write.order, body.get("symbol"), body.get("side"), quantity, limit_price)


def _terms(
    order: str | None, symbol: str | None, side: str | None, quantity: Decimal | None, limit_price: Decimal | None
) -> str:
    numbers = (f"{number.normalize():f}" for number in (quantity, limit_price) if number is not None)
    return " ".join((*(word for word in (order, symbol, side) if word is not None), *numbers))


def _sent(books: Books) -> Iterator[tuple[Action, set[str]]]:
    """Every action that passed its door, with the names that it may go by where it is written."""
    orders: dict[str, set[str]] = defaultdict(set)
    for latest in books.intents.values():
        orders[latest.intent_id].update(latest.execution.broker_order_ids if latest.execution else ())
    for action in books.actions:
        if action.action_type == ActionType.CREATE:
            orders[action.intent_id].add(client_order_id(ActionId(UUID(action.id))))
    for action in books.actions:
        if action.status not in _UNSENT:
            yield action, _names(action, orders[action.intent_id])


def _names(action: Action, orders: set[str]) -> set[str]:
    if action.action_type == ActionType.CANCEL:
        return orders
    own_id = client_order_id(ActionId(UUID(action.id)))
    if action.action_type == ActionType.CREATE:
        return {own_id, _terms(None, action.symbol, action.order_side, action.quantity, action.limit_price)}
    return {own_id, *(_terms(order, None, None, action.quantity, action.limit_price) for order in orders)}
