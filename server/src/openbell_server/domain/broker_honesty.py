"""How far a broker's ids and look-ups can be relied on, and what follows from that for a command in doubt."""

from enum import StrEnum
from typing import Final

from openbell_server.domain.intents import ActionType


class IdClass(StrEnum):
    """What a broker does with the id that a client gives a command."""

    # It refuses a second command with the same id, for good: such a one may be written again.
    ENFORCED = "A"
    # It refuses one for a while, or while the order is open.
    FOR_A_WHILE = "W"
    # It takes both and tells the id back.
    ECHOED = "B"
    # It has no place for an id.
    NONE = "C"


class LookUp(StrEnum):
    """What a broker can be asked about an order."""

    # By our id, orders that ended too: not to be found there is evidence.
    EVERY_ORDER = "every_order"
    # Open orders only: one that is missing may have ended.
    OPEN_ORDERS = "open_orders"
    # By the broker's own id only, which is known once it took the order.
    BROKER_ID = "broker_id"


# How often a command may be written after its first time, where a broker enforces its id.
RESENDS_MAX: Final = 2

_PROVED: Final = "Two look-ups that do not find it, past every delay, prove that it never arrived: then it is"
_CHANGE_PROVED: Final = "Two look-ups that show other terms, past every delay, prove that it never arrived: then it is"
_AGAIN: Final = f"at most {RESENDS_MAX} times and only while it may still pass, and is FAILED after that."
_BY_HAND: Final = "if it stays so, an operator who has seen the broker's books settles it. It is never written again."
_SHOWN: Final = "A report or a look-up that shows the order."
_TERMS: Final = "Its order: one that shows the terms asked for, or ends."

_ALL: Final = frozenset(IdClass)
_NOT_ENFORCED: Final = _ALL - {IdClass.ENFORCED}
_SENTENCES: Final[dict[tuple[ActionType, frozenset[LookUp], frozenset[IdClass]], str]] = {
    (ActionType.CREATE, frozenset({LookUp.EVERY_ORDER}), frozenset({IdClass.ENFORCED})): (
        f"{_SHOWN} {_PROVED} written again with the same id, {_AGAIN}"
    ),
    (ActionType.CREATE, frozenset({LookUp.EVERY_ORDER}), _NOT_ENFORCED): (
        f"{_SHOWN} {_PROVED} FAILED. It is never written again."
    ),
    (ActionType.CREATE, frozenset({LookUp.OPEN_ORDERS}), _ALL): (
        f"{_SHOWN} The broker shows open orders only, so that not to find it proves nothing: {_BY_HAND}"
    ),
    (ActionType.CREATE, frozenset({LookUp.BROKER_ID}), _ALL - {IdClass.NONE}): (
        "A report that names the order by our id. The broker can be asked only by its own id, which is not known:"
        f" {_BY_HAND}"
    ),
    (ActionType.CREATE, frozenset({LookUp.BROKER_ID}), frozenset({IdClass.NONE})): (
        "An operator who has seen the broker's books: the broker knows no id of ours, and can be asked only by its own,"
        " which is not known. It is never written again."
    ),
    (ActionType.REPLACE, frozenset(LookUp), frozenset({IdClass.ENFORCED})): (
        f"{_TERMS} {_CHANGE_PROVED} written again with the same id, where totals can be repeated, {_AGAIN}"
    ),
    (ActionType.REPLACE, frozenset(LookUp), _NOT_ENFORCED): (
        f"{_TERMS} {_CHANGE_PROVED} FAILED. An order that is not shown proves nothing: {_BY_HAND}"
    ),
    (ActionType.CANCEL, frozenset(LookUp), _ALL): (
        "The end of the order. Where a repeat can do nothing new, the broker is asked again meanwhile; where it cannot"
        " be, and if it stays so, an operator who has seen the broker's books settles it."
    ),
}
# What would end a doubt, in words, for every command at every kind of broker.
SETTLES_BY: Final = {
    (command, look_up, id_class): sentence
    for (command, look_ups, id_classes), sentence in _SENTENCES.items()
    for look_up in look_ups
    for id_class in id_classes
}
