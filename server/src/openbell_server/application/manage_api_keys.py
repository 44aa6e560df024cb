"""Manage an organization's API keys: make, list, disable, rename and revoke them."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from openbell_server.application.paging import bounded, cursors_of, start_of
from openbell_server.application.ports.api_key_records import ApiKeyRecords
from openbell_server.domain import api_keys
from openbell_server.domain.api_keys import ApiKeyRecord, KeyChange, NewApiKey
from openbell_server.domain.errors import Problem
from openbell_server.domain.principals import Principal


@dataclass(frozen=True, slots=True)
class KeyPage:
    """Keys in commit order; the cursors are as of every list."""

    keys: list[ApiKeyRecord]
    next_cursor: str | None
    last_cursor: str | None


@dataclass(frozen=True, slots=True)
class ManageApiKeys:
    """For the organization's admins; a change acts everywhere within a second."""

    records: ApiKeyRecords
    cursor_key: bytes
    entropy: Callable[[int], bytes]

    async def require_open(self, principal: Principal) -> None:
        """Refuse while the organization is disabled."""
        if await self.records.is_organization_disabled(principal.organization_id):
            raise Problem("organization_disabled", "the organization is disabled")

    async def create(self, principal: Principal, new: NewApiKey) -> tuple[str, ApiKeyRecord]:
        """A new key with its text, which is shown now and never again."""
        text, presented = api_keys.mint(new.environment, self.entropy(api_keys.ENTROPY_BYTES))
        return text, await self.records.add(principal, presented, new)

    async def page(self, principal: Principal, cursor: str | None, limit: int | None) -> KeyPage:
        """Keys of the organization, the revoked ones included."""
        scope = f"api keys {principal.organization_id}"
        after, rows = start_of(self.cursor_key, scope, cursor), bounded(limit)
        found = await self.records.list_after(principal.organization_id, after, rows + 1)
        numbers = [number for number, _ in found]
        cursors = cursors_of(self.cursor_key, scope, cursor, numbers, rows)
        return KeyPage([record for _, record in found[:rows]], *cursors)

    async def show(self, principal: Principal, api_key_id: UUID) -> ApiKeyRecord:
        """One key."""
        return _there(await self.records.find(principal.organization_id, api_key_id))

    async def change(self, principal: Principal, api_key_id: UUID, change: KeyChange) -> ApiKeyRecord:
        """How the key stands after the change."""
        return _there(await self.records.change(principal, api_key_id, change))


def _there(record: ApiKeyRecord | None) -> ApiKeyRecord:
    if record is None:
        raise Problem("not_found", "there is no such API key")
    return record
