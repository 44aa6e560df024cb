"""Which answers of Alpaca to a command are definite: those listed here, and nothing else."""

from typing import Final

from openbell_server.brokers.alpaca.wire import AlpacaOrder, ErrorBody
from openbell_server.brokers.http_client import Reply, UnreadableAnswer, decoded
from openbell_server.domain.broker_orders import Accepted, NotSent, Outcome, Refused, Unknown

POST: Final = "POST"
PATCH: Final = "PATCH"
DELETE: Final = "DELETE"
_OK: Final = 200
_NO_CONTENT: Final = 204

NOT_FOUND: Final = (404, 40410000)
NOT_CHANGEABLE: Final = (422, 42210000)
RATE_LIMITED: Final = (429, 42910000)
# Every definite no, by command, status and Alpaca's own code: its documentation calls these two the stable contract and
# lets the message change. What a proxy says in between has no such code.
REFUSALS: Final[frozenset[tuple[str, int, int]]] = frozenset(
    {
        # The body could not be parsed, so there was nothing to take.
        (POST, 400, 40010000),
        (PATCH, 400, 40010000),
        # Turned away at the gate: the key is not known, and no account was looked at.
        (POST, 401, 40110000),
        (PATCH, 401, 40110000),
        (DELETE, 401, 40110000),
        # Documented for the account that may not: buying power, shares held, restrictions, a command that is disabled.
        (POST, 403, 40310000),
        (PATCH, 403, 40310000),
        (DELETE, 403, 40310000),
        # The day-trading protection, checked before an order is made.
        (POST, 403, 40310100),
        # There is no such order to change or end.
        (PATCH, *NOT_FOUND),
        (DELETE, *NOT_FOUND),
        # Documented for what is wrong with the order itself: symbol, quantity, prices, time in force.
        (POST, 422, 42210000),
        # Documented for an order that cannot be replaced as asked: ended, replaced, unchanged, quantity too low.
        (PATCH, *NOT_CHANGEABLE),
        # Documented for an order that is not cancelable: it has ended, or another took its place.
        (DELETE, *NOT_CHANGEABLE),
    }
)
# Not listed on purpose: 422 with 40010001. It is also what a second order with the same client_order_id gets, which
# proves that the first one was taken; the message alone would tell the two apart.

# A replace with this message was seen to go through all the same, under a code that is listed.
_REPLACED_ALL_THE_SAME: Final = "sent to exchange"


def error_of(reply: Reply) -> ErrorBody | None:
    """What Alpaca says, if it is Alpaca that says it."""
    try:
        return decoded(reply.body, ErrorBody)
    except UnreadableAnswer:
        return None


def is_error(reply: Reply, known: tuple[int, int]) -> bool:
    """Whether it is this error, by status and code."""
    error = error_of(reply)
    return error is not None and (reply.status, error.code) == known


def outcome_of(method: str, reply: Reply, name: str) -> Outcome:
    """What an answer says of a command: name is its client_order_id, or the order's own id of a cancel."""
    if method == DELETE and reply.status == _NO_CONTENT:
        return Accepted(name)
    if method != DELETE and reply.status == _OK:
        return _taken(reply, name)
    error = error_of(reply)
    if error is None or error.code is None:
        return Unknown(f"the broker answered {reply.status}")
    if (reply.status, error.code) == RATE_LIMITED:
        # The limit is counted at the gate, before anything is read.
        return NotSent(error.message, reply.retry_after)
    is_definite = (method, reply.status, error.code) in REFUSALS
    if is_definite and not (method == PATCH and _REPLACED_ALL_THE_SAME in error.message):
        return Refused(str(error.code), error.message)
    return Unknown(f"the broker answered {reply.status}: {error.message}")


def _taken(reply: Reply, name: str) -> Outcome:
    try:
        order = decoded(reply.body, AlpacaOrder)
    except UnreadableAnswer as trouble:
        return Unknown(f"{reply.status} with a body that cannot be read: {trouble}")
    if order.client_order_id != name:
        return Unknown(f"{reply.status} with another order: {order.client_order_id}")
    return Accepted(order.id)
