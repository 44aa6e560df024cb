"""Encodes events as protobuf messages."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from google.protobuf.json_format import ParseDict
from google.protobuf.timestamp_pb2 import Timestamp

from openbell.wire import trading_pb2 as pb
from openbell_server.application.events.event_frames import Frame, FrameKind
from openbell_server.application.events.event_tail_cache import Entry, Link
from openbell_server.domain.errors import Problem, RateLimited, is_retryable
from openbell_server.domain.events.account_events import AccountEvent, EventKind

KINDS = {
    pb.EVENT_TYPE_BROKER_ORDER: EventKind.BROKER_ORDER,
    pb.EVENT_TYPE_INTENT_ACTION: EventKind.INTENT_ACTION,
    pb.EVENT_TYPE_ACCOUNT_CHANGED: EventKind.ACCOUNT_CHANGED,
    pb.EVENT_TYPE_EXTERNAL_ORDER: EventKind.EXTERNAL_ORDER,
    pb.EVENT_TYPE_POSITION_ADJUSTED: EventKind.POSITION_ADJUSTED,
    pb.EVENT_TYPE_BROKER_TRADE: EventKind.BROKER_TRADE,
    pb.EVENT_TYPE_CONTROL_CHANGED: EventKind.CONTROL_CHANGED,
    pb.EVENT_TYPE_INTENT_REFUSED: EventKind.INTENT_REFUSED,
    pb.EVENT_TYPE_BALANCES_CHANGED: EventKind.BALANCES_CHANGED,
    pb.EVENT_TYPE_LOSS_LIMIT_EXCEEDED: EventKind.LOSS_LIMIT_EXCEEDED,
}

# Messages whose fields are those of the stored body.
_OF_TEXTS_AND_NUMBERS: Final = {
    EventKind.POSITION_ADJUSTED: pb.PositionAdjusted,
    EventKind.CONTROL_CHANGED: pb.ControlChanged,
    EventKind.INTENT_REFUSED: pb.IntentRefused,
}
# The same, but for one time.
_WITH_A_TIME: Final = {
    EventKind.EXTERNAL_ORDER: (pb.ExternalOrder, "accepted_at"),
    EventKind.BALANCES_CHANGED: (pb.BalancesChanged, "as_of"),
    EventKind.LOSS_LIMIT_EXCEEDED: (pb.LossLimitExceeded, "as_of"),
}
_TOKEN_KEPT_MAX: Final = 64


def timestamp(instant: datetime) -> Timestamp:
    made = Timestamp()
    made.FromDatetime(instant)
    return made


def encode_event(event: AccountEvent) -> bytes:
    """Encode the part that all subscribers share; the part of one subscriber is appended, because protobuf merges."""
    message = pb.TradingEvent(
        account_id=str(event.account_id),
        account_seq=event.number,
        event_id=event.event_id,
        occurred_at=timestamp(event.occurred_at),
    )
    _fill(message, event)
    return message.SerializeToString()


def encode_frame(frame: Frame, request: pb.Subscribe, now: Callable[[], datetime]) -> bytes:
    if frame.entry is not None:
        return _encoded_event(frame, frame.entry, request.subscription_id)
    message = pb.TradingEvent(
        account_id="" if frame.account_id is None else str(frame.account_id),
        account_seq=frame.position,
        prev_seq=frame.previous,
        resume_token=frame.resume_token,
        subscription_id=request.subscription_id,
    )
    match frame.kind:
        case FrameKind.SUBSCRIBED:
            message.subscribed.CopyFrom(
                pb.Subscribed(
                    subscriptions=request.subscriptions,
                    symbols=request.symbols,
                    start=request.start,
                    organization=frame.account_id is None,
                )
            )
        case FrameKind.HEARTBEAT:
            message.heartbeat.sent_at.CopyFrom(timestamp(now()))
        case kind:
            ParseDict({kind.value: frame.body}, message)
    return message.SerializeToString()


def _encoded_event(frame: Frame, entry: Entry, label: str) -> bytes:
    if frame.message and not label:
        return frame.message
    link = (frame.previous, frame.resume_token, label)
    # Tokens of organization-wide subscriptions are long and used once, so they are not cached.
    if len(frame.resume_token) > _TOKEN_KEPT_MAX:
        return entry.encoded + _differing(link)
    linked = entry.link(link, _differing)
    if not label:
        frame.message = linked
    return linked


def encode_error(problem: Problem, request: pb.Subscribe, token: str = "") -> bytes:
    """An error that ends a subscription, or that refuses a request with this label."""
    wait = f"; wait {problem.wait_seconds} s" if isinstance(problem, RateLimited) else ""
    error = pb.Error(code=problem.code, message=problem.detail + wait, retryable=is_retryable(problem))
    return pb.TradingEvent(
        account_id=request.trading_account_id,
        resume_token=token,
        subscription_id=request.subscription_id,
        error=error,
    ).SerializeToString()


def encode_ended(label: str) -> bytes:
    return pb.TradingEvent(subscription_id=label, ended=pb.Ended()).SerializeToString()


def _differing(link: Link) -> bytes:
    previous, token, label = link
    return pb.TradingEvent(prev_seq=previous, resume_token=token, subscription_id=label).SerializeToString()


def _fill(message: pb.TradingEvent, event: AccountEvent) -> None:
    body: dict[str, Any] = {name: value for name, value in json.loads(event.body).items() if value is not None}
    if event.kind in _WITH_A_TIME:
        make, name = _WITH_A_TIME[event.kind]
        body[name] = timestamp(datetime.fromisoformat(body[name]))
        getattr(message, event.kind.name.lower()).CopyFrom(make(**body))
        return
    if event.kind in _OF_TEXTS_AND_NUMBERS:
        getattr(message, event.kind.name.lower()).CopyFrom(_OF_TEXTS_AND_NUMBERS[event.kind](**body))
        return
    if event.kind is EventKind.BROKER_TRADE:
        executed_at = timestamp(datetime.fromisoformat(body.pop("executed_at")))
        message.broker_trade.CopyFrom(pb.BrokerTrade(intent_id=str(event.intent_id), executed_at=executed_at, **body))
        return
    reason = body.pop("reason", None)
    target: pb.BrokerOrder | pb.IntentAction | pb.AccountChanged
    if event.kind is EventKind.ACCOUNT_CHANGED:
        target = message.account_changed
        if (expires_at := body.pop("expires_at", None)) is not None:
            body["expires_at"] = timestamp(datetime.fromisoformat(expires_at))
        target.CopyFrom(pb.AccountChanged(**body))
    elif event.kind is EventKind.BROKER_ORDER:
        target = message.broker_order
        target.CopyFrom(pb.BrokerOrder(intent_id=str(event.intent_id), **body))
    else:
        target = message.intent_action
        assert event.seq is not None
        if (unknown := body.pop("unknown", None)) is not None:
            body["unknown"] = _unknown(unknown)
        target.CopyFrom(pb.IntentAction(intent_id=str(event.intent_id), seq=event.seq, **body))
    if reason is not None:
        target.reason.CopyFrom(pb.Reason(**{name: text for name, text in reason.items() if text is not None}))


def _unknown(body: Mapping[str, Any]) -> pb.Unknown:
    moments = {
        name: timestamp(datetime.fromisoformat(body[name]))
        for name in ("since", "flagged_at")
        if body[name] is not None
    }
    return pb.Unknown(writes=body["writes"], settles_by=body["settles_by"], **moments)
