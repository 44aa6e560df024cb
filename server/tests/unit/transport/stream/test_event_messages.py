"""Events as protobuf messages."""

import json
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from openbell_server.application.follow_events import Frame
from openbell_server.domain.account_events import AccountEvent, EventKind
from openbell_server.domain.identifiers import AccountId, IntentId
from openbell_server.transport.stream.event_messages import event_message

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize("flagged_at", [None, NOON])
def test_a_doubt_arrives_with_its_writes_its_flag_and_what_would_settle_it(flagged_at: datetime | None) -> None:
    unknown = {
        "since": NOON.isoformat(),
        "flagged_at": flagged_at and flagged_at.isoformat(),
        "writes": 2,
        "settles_by": "a sentence",
    }
    body = {"action_id": "a", "action_type": "CREATE", "state": "UNKNOWN", "reason": {"code": "NEEDS_ATTENTION"}}
    account_id, text = AccountId(uuid4()), json.dumps(body | {"unknown": unknown})
    event = AccountEvent(account_id, 1, EventKind.INTENT_ACTION, IntentId(uuid4()), 1, text, NOON)
    message = event_message(account_id, Frame(event, 1, 0, "token"))
    assert message.intent_action.HasField("unknown")
    told = message.intent_action.unknown
    assert (told.writes, told.settles_by, told.HasField("flagged_at")) == (2, "a sentence", flagged_at is not None)
    assert told.since.ToDatetime(tzinfo=UTC) == NOON
