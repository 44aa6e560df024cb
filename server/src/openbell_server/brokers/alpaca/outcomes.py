"""Which of Alpaca's answers to a command are definite: only those listed here."""

from typing import Final

from openbell_server.brokers.alpaca.wire import AlpacaOrder, ErrorBody
from openbell_server.brokers.http_client import Reply, UnreadableAnswer, decoded
from openbell_server.domain.orders.broker_reports import Accepted, NotSent, Outcome, Refused, Unknown

POST: Final = "POST"
PATCH: Final = "PATCH"
DELETE: Final = "DELETE"
_OK: Final = 200
_NO_CONTENT: Final = 204

NOT_FOUND: Final = (404, 40410000)
NOT_CHANGEABLE: Final = (422, 42210000)
RATE_LIMITED: Final = (429, 42910000)
# Every definite refusal by command, status and Alpaca's own code: its documentation calls status and code the stable
# contract, and allows the message to change. An answer of a proxy in between has no such code.
REFUSALS: Final[frozenset[tuple[str, int, int]]] = frozenset(
    {
        # Public reports: the body could not be parsed, so there was no order.
        (POST, 400, 40010000),
        (PATCH, 400, 40010000),
        # Public reports: rejected at the gateway because the key is unknown; no account was read.
        (POST, 401, 40110000),
        (PATCH, 401, 40110000),
        (DELETE, 401, 40110000),
        # Alpaca's table of options errors and public reports: the account lacks permission, buying power or shares.
        (POST, 403, 40310000),
        (PATCH, 403, 40310000),
        (DELETE, 403, 40310000),
        # The order to replace or cancel does not exist.
        (PATCH, *NOT_FOUND),
        (DELETE, *NOT_FOUND),
        # The same table: the order itself is invalid (symbol, quantity, prices, time in force).
        (POST, 422, 42210000),
        # The same table and public reports: the order cannot be replaced (ended, replaced, unchanged).
        (PATCH, *NOT_CHANGEABLE),
        # Public reports: the order is not cancelable because it has ended or was replaced.
        (DELETE, *NOT_CHANGEABLE),
    }
)
# Not listed on purpose: 422 with 40010001. A second order with the same client_order_id gets the same code, which
# proves that the first one was accepted; only the message differs.

# A replace with this message was seen to succeed although its code is listed above.
_REPLACED_ALL_THE_SAME: Final = "sent to exchange"


def error_of(reply: Reply) -> ErrorBody | None:
    """The error body, or None if the body is not Alpaca's error format."""
    try:
        return decoded(reply.body, ErrorBody)
    except UnreadableAnswer:
        return None


def is_error(reply: Reply, known: tuple[int, int]) -> bool:
    error = error_of(reply)
    return error is not None and (reply.status, error.code) == known


def outcome_of(method: str, reply: Reply, name: str) -> Outcome:
    """The outcome of a command; name is its client_order_id, or the order's id for a cancel."""
    if method == DELETE and reply.status == _NO_CONTENT:
        return Accepted(name)
    if method != DELETE and reply.status == _OK:
        return _taken(reply, name)
    error = error_of(reply)
    if error is None or error.code is None:
        return Unknown(f"the broker answered {reply.status}")
    if (reply.status, error.code) == RATE_LIMITED:
        # The gateway counts the limit before it reads the command.
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
