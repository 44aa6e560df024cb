"""What statements about lanes of webhooks are called with, beside whose they are."""

from typing import Any
from uuid import uuid4


def values_of_lanes() -> dict[str, Any]:
    """Nobody holds the claim."""
    return {
        "process_id": uuid4(),
        "streams": 1,
        "open_streams": [1],
        "streams_max": 10,
        "write_no": 1,
        "stale_seconds": 60.0,
        "keys_max": 0,
        "accounts_max": 0,
        "webhook_id": uuid4(),
        "lane_token": uuid4(),
        "failing_limit": 9,
        "webhook_lanes_max": 9,
        "webhook_failing_max": 9,
        "organization_lanes_max": 9,
        "organization_failing_max": 9,
        "lane_position": 0,
        "sent_seq": 0,
        "answered": 200,
        "last_status": 500,
        "last_error": "e",
        "pause_seconds": 1.0,
        "park_seconds": 60.0,
        "message_id": "m",
        "duration_millis": 1,
        "trouble": None,
        "before_no": 2**63 - 1,
        "lane_url": "https://example.com/",
        "lease_seconds": 30.0,
    }
