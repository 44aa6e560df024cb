"""The audit log."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from openbell.models import Record


class AuditEntry(Record, frozen=True, kw_only=True):
    """A change: who did what, and the object as JSON text before and after. Texts, because `hash` covers every byte."""

    organization_id: str
    number: int
    audit_id: str
    occurred_at: str
    login: str
    principal_type: str
    principal_id: str
    operation: str
    object_id: str
    after: str
    hash: str
    before: str | None = None


def export_lines(entries: Iterable[AuditEntry]) -> Iterator[dict[str, Any]]:
    """The lines of an export that `openbell-server audit verify` reads: every entry, then the last one as the head."""
    yield {"kind": "audit_log", "format": 1}
    count, head = 0, None
    for head in entries:
        count += 1
        yield {"kind": "entry", **msgspec.structs.asdict(head)}
    if head is not None:
        yield {"kind": "head", "organization_id": head.organization_id, "number": head.number, "hash": head.hash}
    yield {"kind": "end", "entries": count, "heads": 0 if head is None else 1}
