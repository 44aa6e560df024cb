"""Which guarantees a broker gives for ids and look-ups, and how an UNKNOWN command is settled with them."""

from enum import StrEnum
from typing import Final

from openbell_server.domain.orders.intents import ActionType


class IdClass(StrEnum):
    """What a broker does with a client's id of a command."""

    # It refuses a second command with the same id forever, so a resend is safe.
    ENFORCED = "A"
    # It refuses a second one for a while, or while the order is open.
    FOR_A_WHILE = "W"
    # It accepts both and returns the id in reports.
    ECHOED = "B"
    # It has no field for an id.
    NONE = "C"


class LookUp(StrEnum):
    """Which orders a broker's look-up can find."""

    # By our id, ended orders too: a missing order is evidence.
    EVERY_ORDER = "EVERY_ORDER"
    # Open orders only: a missing order may have ended.
    OPEN_ORDERS = "OPEN_ORDERS"
    # By the broker's id only, which is known once the broker accepted the order.
    BROKER_ID = "BROKER_ID"


# How many resends are allowed, where a broker enforces the id.
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
# How an UNKNOWN outcome is settled, for every command and kind of broker.
SETTLES_BY: Final = {
    (command, look_up, id_class): sentence
    for (command, look_ups, id_classes), sentence in _SENTENCES.items()
    for look_up in look_ups
    for id_class in id_classes
}
