"""Read the organization's audit log."""

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final, Protocol

from openbell_server.application.paging import ListOrder, Page, bounded, scan, start_of
from openbell_server.domain.access.audit_chain import Entry
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.events.cursors import seal
from openbell_server.domain.identifiers import OrganizationId

# No index selects entries by operation or principal, so a page scans this many.
NUMBERS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    since: datetime | None = None
    until: datetime | None = None
    operation: str | None = None
    principal_id: str | None = None
    order: ListOrder = ListOrder.OLDEST_FIRST


class AuditEntries(Protocol):
    async def numbers_between(
        self, organization_id: OrganizationId, since: datetime | None, until: datetime | None
    ) -> range:
        """The numbers of all entries in the span."""

    async def list_entries(
        self, organization_id: OrganizationId, wanted: AuditFilter, numbers: range, limit: int
    ) -> list[Entry]:
        """Entries with these numbers that match; the span is not compared again."""


@dataclass(frozen=True, slots=True)
class ReadAuditLog:
    """For the organization's admins."""

    entries: AuditEntries
    cursor_key: bytes

    async def __call__(
        self, admin: Principal, cursor: str | None, limit: int | None, wanted: AuditFilter
    ) -> Page[Entry]:
        """A page may be short although more follow."""
        scope = f"audit {admin.organization_id} {json.dumps(asdict(wanted), default=str)}"
        after, rows = start_of(self.cursor_key, scope, cursor), bounded(limit)
        there = await self.entries.numbers_between(admin.organization_id, wanted.since, wanted.until)
        scanned = scan(there, after, NUMBERS_MAX, wanted.order)
        found = await self.entries.list_entries(admin.organization_id, wanted, scanned.numbers, rows + 1)
        is_full = len(found) > rows
        # A page with nothing to look at returns the cursor that it began at.
        reached = found[rows - 1].number if is_full else scanned.reached if scanned.numbers else after
        last = seal(self.cursor_key, scope, reached) if reached else None
        return Page(found[:rows], last if is_full or not scanned.is_all else None, last)
