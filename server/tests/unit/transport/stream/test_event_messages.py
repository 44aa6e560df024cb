"""Events as protobuf messages."""

import json
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from openbell.events.grpc_messages import frame_of
from openbell.events.subscriptions import Subscription
from openbell.models import Unknown
from openbell.wire import trading_pb2 as pb
from openbell_server.application.events.event_frames import Frame, FrameKind
from openbell_server.application.events.event_tail_cache import Entry
from openbell_server.domain.events.account_events import AccountEvent, EventKind
from openbell_server.domain.identifiers import AccountId, IntentId
from openbell_server.transport.stream.event_messages import encode_event, encode_frame

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize("flagged_at", [None, NOON])
def test_a_doubt_arrives_with_its_writes_its_flag_and_what_would_settle_it(flagged_at: datetime | None) -> None:
    unknown = {
        "since": NOON.isoformat(),
        "flagged_at": flagged_at and flagged_at.isoformat(),
        "writes": 2,
        "settles_by": "a sentence",
    }
    body = {"action_id": "a", "action_type": "CREATE", "status": "UNKNOWN", "reason": {"code": "NEEDS_ATTENTION"}}
    account_id = AccountId(uuid4())
    event = AccountEvent(
        account_id=account_id,
        number=1,
        kind=EventKind.INTENT_ACTION,
        intent_id=IntentId(uuid4()),
        seq=1,
        body=json.dumps(body | {"unknown": unknown}),
        occurred_at=NOON,
    )
    message = pb.TradingEvent.FromString(encode_event(event))
    (heard,) = Subscription(str(account_id), None).accept(frame_of(message))
    assert heard.intent_action is not None
    assert heard.intent_action.unknown == Unknown(since=NOON, flagged_at=flagged_at, writes=2, settles_by="a sentence")


def test_followers_who_are_sent_the_same_frame_each_have_their_own_label() -> None:
    event = AccountEvent(
        account_id=AccountId(uuid4()),
        number=2,
        kind=EventKind.CONTROL_CHANGED,
        intent_id=None,
        seq=None,
        body=json.dumps({"scope": "ACCOUNT", "code": "QTY_MAX", "change": "CREATED"}),
        occurred_at=NOON,
    )
    shared = Frame(FrameKind.EVENT, event.account_id, 2, 1, "token", Entry(event, encode_event(event)))
    labels = ["", "mine", "", "yours", ""]
    sent = [encode_frame(shared, pb.Subscribe(subscription_id=label), lambda: NOON) for label in labels]
    told = [pb.TradingEvent.FromString(message) for message in sent]
    assert [each.subscription_id for each in told] == labels
    assert {(each.account_seq, each.prev_seq, each.resume_token) for each in told} == {(2, 1, "token")}
