"""Judges what left for a broker: every command once, unless the broker makes a repeat harmless; pure."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final
from uuid import UUID

from openbell import Action
from openbell_server.application.ports.broker import BrokerCapabilities
from openbell_server.domain.action_lifecycle import ActionState
from openbell_server.domain.broker_honesty import IdClass
from openbell_server.domain.identifiers import ActionId, client_order_id
from openbell_server.domain.intents import ActionType

# A command whose id the broker enforces for good may leave so often, always with that id.
ENFORCED_WRITES_MAX: Final = 3
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

    @property
    def client_order_id(self) -> str | None:
        """The command's own id, where it bears one."""
        return self.body.get("client_order_id")


def excess_writes(
    writes: Sequence[Write], actions: Sequence[Action], brokers: Mapping[str, BrokerCapabilities]
) -> Iterator[str]:
    """A sentence for every write that nothing allows; what the broker of each account can do says what is allowed.

    A torn write is no command to whoever receives it.
    """
    asked = _Asked.of(actions)
    counted: Counter[tuple[ActionType, str, str]] = Counter()
    for write in writes:
        if write.whole:
            counted[write.action_type, write.account_id, _name(write)] += 1
    for (action_type, account_id, name), times in counted.items():
        able = brokers[account_id]
        commands = asked.commands[action_type, account_id, name]
        if action_type is ActionType.CANCEL:
            most = times if able.repeats_cancels and commands else commands
        elif able.id_classes.get(action_type) is IdClass.ENFORCED:
            most = ENFORCED_WRITES_MAX * commands
        else:
            most = commands
        if times > most:
            yield f"{action_type} {name} of {account_id} left {times} times, and {most} were allowed"


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


@dataclass(frozen=True, slots=True)
class _Asked:
    """How many commands bear a name, by kind and account."""

    commands: Counter[tuple[ActionType, str, str]] = field(default_factory=Counter)

    @classmethod
    def of(cls, actions: Sequence[Action]) -> "_Asked":
        asked = cls()
        orders: dict[str, set[str]] = defaultdict(set)
        for action in actions:
            if action.action_type == ActionType.CREATE:
                orders[action.intent_id] |= {client_order_id(ActionId(UUID(action.id)))}
                orders[action.intent_id] |= set(action.execution.broker_order_ids if action.execution else ())
        for action in actions:
            if action.state not in _UNSENT:
                for name in _names(action, orders[action.intent_id]):
                    asked.commands[ActionType(action.action_type), action.account_id, name] += 1
        return asked


def _names(action: Action, orders: set[str]) -> set[str]:
    if action.action_type == ActionType.CANCEL:
        return orders
    own_id = client_order_id(ActionId(UUID(action.id)))
    if action.action_type == ActionType.CREATE:
        return {own_id, _terms(None, action.symbol, action.order_side, action.quantity, action.limit_price)}
    return {own_id, *(_terms(order, None, None, action.quantity, action.limit_price) for order in orders)}
