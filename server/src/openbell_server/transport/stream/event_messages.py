"""Events as protobuf messages."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from openbell.wire import trading_pb2 as pb
from openbell_server.application.follow_events import Frame
from openbell_server.domain.account_events import AccountEvent, EventKind
from openbell_server.domain.identifiers import AccountId

KINDS = {
    pb.EVENT_TYPE_BROKER_ORDER: EventKind.BROKER_ORDER,
    pb.EVENT_TYPE_INTENT_ACTION: EventKind.INTENT_ACTION,
    pb.EVENT_TYPE_ACCOUNT_CHANGED: EventKind.ACCOUNT_CHANGED,
    pb.EVENT_TYPE_EXTERNAL_ORDER: EventKind.EXTERNAL_ORDER,
    pb.EVENT_TYPE_POSITION_ADJUSTED: EventKind.POSITION_ADJUSTED,
}


def timestamp(instant: datetime) -> Timestamp:
    """An instant as protobuf has it."""
    made = Timestamp()
    made.FromDatetime(instant)
    return made


def event_message(account_id: AccountId, frame: Frame) -> pb.TradingEvent:
    """A frame that carries an event."""
    assert frame.event is not None
    message = _envelope(account_id, frame)
    message.occurred_at.CopyFrom(timestamp(frame.event.occurred_at))
    _fill(message, frame.event)
    return message


def subscribed_message(account_id: AccountId, frame: Frame, request: pb.Subscribe) -> pb.TradingEvent:
    """The first frame of a stream."""
    message = _envelope(account_id, frame)
    message.subscribed.subscriptions.extend(request.subscriptions)
    return message


def heartbeat_message(account_id: AccountId, frame: Frame, now: datetime) -> pb.TradingEvent:
    """A sign of life."""
    message = _envelope(account_id, frame)
    message.heartbeat.sent_at.CopyFrom(timestamp(now))
    return message


def _envelope(account_id: AccountId, frame: Frame) -> pb.TradingEvent:
    return pb.TradingEvent(
        trading_account_id=str(account_id),
        account_seq=frame.position,
        prev_seq=frame.previous,
        resume_token=frame.resume_token,
    )


def _fill(message: pb.TradingEvent, event: AccountEvent) -> None:
    body: dict[str, Any] = {name: value for name, value in json.loads(event.body).items() if value is not None}
    if event.kind is EventKind.EXTERNAL_ORDER:
        accepted_at = timestamp(datetime.fromisoformat(body.pop("accepted_at")))
        message.external_order.CopyFrom(pb.ExternalOrder(accepted_at=accepted_at, **body))
        return
    if event.kind is EventKind.POSITION_ADJUSTED:
        message.position_adjusted.CopyFrom(pb.PositionAdjusted(**body))
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


def _unknown(told: Mapping[str, Any]) -> pb.Unknown:
    moments = {
        name: timestamp(datetime.fromisoformat(told[name]))
        for name in ("since", "flagged_at")
        if told[name] is not None
    }
    return pb.Unknown(writes=told["writes"], settles_by=told["settles_by"], **moments)
