"""Events as JSON objects, the same on every transport that speaks JSON: the words of proto/trading.proto.

Prices and quantities are decimal strings, times RFC 3339 in UTC, numbers are numbers, also those of 64 bits; what is
unknown or empty is absent.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from openbell_server.domain.account_events import AccountEvent

_MOMENTS: Final = frozenset({"accepted_at", "executed_at", "expires_at", "flagged_at", "since", "updated_at"})


def event_document(event: AccountEvent) -> dict[str, object]:
    """The event, without what depends on who reads it."""
    told: dict[str, object] = {}
    if event.intent_id is not None:
        told["intent_id"] = str(event.intent_id)
    kind = event.kind.name.lower()
    if kind == "intent_action":
        told["seq"] = event.seq
    return {
        "event_id": event.event_id,
        "trading_account_id": str(event.account_id),
        "account_seq": event.number,
        "type": kind,
        "occurred_at": moment_text(event.occurred_at),
        kind: known_words(told | json.loads(event.body)),
    }


def moment_text(moment: datetime) -> str:
    """An instant as JSON has it: as many digits of a second as it needs, by threes."""
    text = moment.astimezone(UTC).replace(tzinfo=None)
    needed = "seconds" if not text.microsecond else "microseconds" if text.microsecond % 1000 else "milliseconds"
    return text.isoformat(timespec=needed) + "Z"


def known_words(body: Mapping[str, object]) -> dict[str, object]:
    """What is known of it."""
    return {name: _told(name, value) for name, value in body.items() if value is not None and value not in ("", [])}


def _told(name: str, value: object) -> object:
    if isinstance(value, dict):
        return known_words(value)
    return moment_text(datetime.fromisoformat(str(value))) if name in _MOMENTS else value
