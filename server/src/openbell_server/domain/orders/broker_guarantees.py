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

_PROVED: Final = (
    "Two look-ups that do not find it, both after the broker's settle time, prove that it never arrived: then it is"
)
_CHANGE_PROVED: Final = (
    "Two look-ups that show other terms, both after the broker's settle time, prove that it never arrived: then it is"
)
_AGAIN: Final = (
    f"sent again with the same id, at most {RESENDS_MAX} times and only if it passes all checks again, and is FAILED"
    " after that."
)
_BY_HAND: Final = (
    "if it stays UNKNOWN, an operator who has checked the broker's records settles it. It is never sent again."
)
_SHOWN: Final = "A report or a look-up that shows the order."
_TERMS: Final = "A report or a look-up that shows the order with the requested terms, or that the order has ended."

_ALL: Final = frozenset(IdClass)
_NOT_ENFORCED: Final = _ALL - {IdClass.ENFORCED}
_SENTENCES: Final[dict[tuple[ActionType, frozenset[LookUp], frozenset[IdClass]], str]] = {
    (ActionType.CREATE, frozenset({LookUp.EVERY_ORDER}), frozenset({IdClass.ENFORCED})): (
        f"{_SHOWN} {_PROVED} {_AGAIN}"
    ),
    (ActionType.CREATE, frozenset({LookUp.EVERY_ORDER}), _NOT_ENFORCED): (
        f"{_SHOWN} {_PROVED} FAILED. It is never sent again."
    ),
    (ActionType.CREATE, frozenset({LookUp.OPEN_ORDERS}), _ALL): (
        f"{_SHOWN} The broker finds open orders only, so a look-up that does not find it proves nothing: {_BY_HAND}"
    ),
    (ActionType.CREATE, frozenset({LookUp.BROKER_ID}), _ALL - {IdClass.NONE}): (
        "A report that names the order by our id. The broker finds orders only by its own id, which is not known:"
        f" {_BY_HAND}"
    ),
    (ActionType.CREATE, frozenset({LookUp.BROKER_ID}), frozenset({IdClass.NONE})): (
        "An operator who has checked the broker's records. The broker does not store our ids and finds orders only by"
        " its own id, which is not known. The command is never sent again."
    ),
    (ActionType.REPLACE, frozenset(LookUp), frozenset({IdClass.ENFORCED})): (f"{_TERMS} {_CHANGE_PROVED} {_AGAIN}"),
    (ActionType.REPLACE, frozenset(LookUp), _NOT_ENFORCED): (
        f"{_TERMS} {_CHANGE_PROVED} FAILED. A look-up that does not find the order proves nothing: {_BY_HAND}"
    ),
    (ActionType.CANCEL, frozenset(LookUp), _ALL): (
        "The end of the order. If the broker accepts repeated cancels, the cancel is sent again until then. Otherwise,"
        " if it stays UNKNOWN, an operator who has checked the broker's records settles it."
    ),
}
# How an UNKNOWN outcome is settled, for every command and kind of broker.
SETTLES_BY: Final = {
    (command, look_up, id_class): sentence
    for (command, look_ups, id_classes), sentence in _SENTENCES.items()
    for look_up in look_ups
    for id_class in id_classes
}
