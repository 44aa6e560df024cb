"""Manage an organization's API keys: create, list, disable, rename and revoke them."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from openbell_server.application.access.ports.api_key_records import ApiKeyRecords
from openbell_server.application.paging import Page, bounded, page_of, start_of
from openbell_server.domain.access import api_keys
from openbell_server.domain.access.api_keys import ApiKeyRecord, KeyChange, NewApiKey
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.errors import Problem


@dataclass(frozen=True, slots=True)
class ManageApiKeys:
    """For the organization's admins; a change takes effect in every process within a second."""

    records: ApiKeyRecords
    cursor_key: bytes
    entropy: Callable[[int], bytes]

    async def require_open(self, principal: Principal) -> None:
        """Raises Problem while the organization is disabled."""
        if await self.records.is_organization_disabled(principal.organization_id):
            raise Problem("organization_disabled", "the organization is disabled")

    async def create(self, principal: Principal, new: NewApiKey) -> tuple[str, ApiKeyRecord]:
        """A new key and its text; only a hash of the text is stored, so it cannot be shown again."""
        text, presented = api_keys.mint(new.environment, self.entropy(api_keys.ENTROPY_BYTES))
        return text, await self.records.add(principal, presented, new)

    async def page(self, principal: Principal, cursor: str | None, limit: int | None) -> Page[ApiKeyRecord]:
        """Keys of the organization, revoked ones included."""
        scope = f"api keys {principal.organization_id}"
        after, rows = start_of(self.cursor_key, scope, cursor), bounded(limit)
        found = await self.records.list_after(principal.organization_id, after, rows + 1)
        return page_of(self.cursor_key, scope, cursor, rows, found)

    async def show(self, principal: Principal, api_key_id: UUID) -> ApiKeyRecord:
        return _found(await self.records.find(principal.organization_id, api_key_id))

    async def change(self, principal: Principal, api_key_id: UUID, change: KeyChange) -> ApiKeyRecord:
        return _found(await self.records.change(principal, api_key_id, change))


def _found(record: ApiKeyRecord | None) -> ApiKeyRecord:
    if record is None:
        raise Problem("not_found", "there is no such API key")
    return record
