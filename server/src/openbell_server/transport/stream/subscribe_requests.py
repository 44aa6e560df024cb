"""Reads the requests of stream clients."""

from typing import Final, TypeVar
from uuid import UUID

from google.protobuf.message import DecodeError, Message

from openbell.wire import trading_pb2 as pb
from openbell_server.application.events.event_frames import Start, Subscription
from openbell_server.domain.errors import InvalidParameter, Problem
from openbell_server.domain.identifiers import AccountId, Symbol, canonical_symbol
from openbell_server.transport.stream.event_messages import KINDS

LABEL_LENGTH_MAX: Final = 64
_STARTS: Final = {
    pb.START_UNSPECIFIED: None,
    pb.START_LIVE: Start.LIVE,
    pb.START_PRIMED: Start.PRIMED,
    pb.START_BEGINNING: Start.BEGINNING,
}
M = TypeVar("M", bound=Message)


def read_message(kind: type[M], sent: bytes) -> M:
    """Decode a message; raises a Problem if it is malformed."""
    try:
        return kind.FromString(sent)
    except DecodeError:
        raise Problem("invalid_parameter", f"the request is not a valid {kind.DESCRIPTOR.full_name}") from None


def subscription_of(request: pb.Subscribe) -> Subscription:
    try:
        account_id = AccountId(UUID(request.trading_account_id)) if request.trading_account_id else None
    except ValueError:
        raise Problem("not_found", "there is no such account") from None
    if not request.subscriptions or any(kind not in KINDS for kind in request.subscriptions):
        names = ", ".join(pb.EventType.Name(kind) for kind in KINDS)
        raise Problem("invalid_parameter", f"subscriptions must name at least one of {names}, and nothing else")
    if request.start not in _STARTS:
        raise InvalidParameter("start", "must be one of the values of Start")
    symbols = frozenset(Symbol(symbol) for symbol in request.symbols)
    if any(canonical_symbol(symbol) != symbol for symbol in symbols):
        raise InvalidParameter("symbols", "must be symbols, in capitals")
    label = request.subscription_id
    if len(label) > LABEL_LENGTH_MAX or not label.isprintable():
        raise InvalidParameter("subscription_id", f"must be at most {LABEL_LENGTH_MAX} printable characters")
    return Subscription(
        account_id=account_id,
        kinds=frozenset(KINDS[kind] for kind in request.subscriptions),
        symbols=symbols,
        start=_STARTS[request.start],
        resume_token=request.resume_token or None,
    )
