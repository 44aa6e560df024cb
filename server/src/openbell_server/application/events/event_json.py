"""Events as JSON objects with the field names of proto/trading.proto, the same for every JSON transport.

Prices and quantities are decimal strings, times RFC 3339 in UTC, integers JSON numbers, also those of 64 bits; fields
that are unknown or empty are absent.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from openbell_server.domain.events.account_events import AccountEvent, EventKind

_MOMENTS: Final = frozenset({"accepted_at", "as_of", "executed_at", "expires_at", "flagged_at", "since", "updated_at"})


def event_document(event: AccountEvent) -> dict[str, object]:
    """The event, without fields that depend on the reader."""
    fields: dict[str, object] = {}
    if event.intent_id is not None:
        fields["intent_id"] = str(event.intent_id)
    name = event.kind.name.lower()
    if event.kind is EventKind.INTENT_ACTION:
        fields["seq"] = event.seq
    return {
        "event_id": event.event_id,
        "account_id": str(event.account_id),
        "account_seq": event.number,
        "type": event.kind.name,
        "occurred_at": moment_text(event.occurred_at),
        name: known_fields(fields | json.loads(event.body)),
    }


def moment_text(moment: datetime) -> str:
    """RFC 3339 with 0, 3 or 6 digits of a second, as few as the time needs."""
    text = moment.astimezone(UTC).replace(tzinfo=None)
    needed = "seconds" if not text.microsecond else "microseconds" if text.microsecond % 1000 else "milliseconds"
    return text.isoformat(timespec=needed) + "Z"


def known_fields(body: Mapping[str, object]) -> dict[str, object]:
    """The fields that are neither None nor empty."""
    return {name: _value(name, value) for name, value in body.items() if value is not None and value not in ("", [])}


def _value(name: str, value: object) -> object:
    if isinstance(value, dict):
        return known_fields(value)
    return moment_text(datetime.fromisoformat(str(value))) if name in _MOMENTS else value
