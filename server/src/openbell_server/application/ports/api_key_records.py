"""What managing an organization's API keys needs from the database; every change names who makes it, and is audited."""

from typing import Protocol
from uuid import UUID

from openbell_server.domain.api_keys import ApiKeyRecord, KeyChange, NewApiKey, PresentedKey
from openbell_server.domain.identifiers import OrganizationId
from openbell_server.domain.principals import Principal


class ApiKeyRecords(Protocol):
    """The keys of an organization."""

    async def is_organization_disabled(self, organization_id: OrganizationId) -> bool:
        """Whether nothing of the organization may be changed now."""

    async def add(self, principal: Principal, presented: PresentedKey, new: NewApiKey) -> ApiKeyRecord:
        """Store a key's hash; one that would have expired already is refused."""

    async def list_after(
        self, organization_id: OrganizationId, after: int, limit: int
    ) -> list[tuple[int, ApiKeyRecord]]:
        """Keys in commit order with their numbers, from the one after a number."""

    async def find(self, organization_id: OrganizationId, api_key_id: UUID) -> ApiKeyRecord | None:
        """The key, if it is the organization's."""

    async def change(self, principal: Principal, api_key_id: UUID, change: KeyChange) -> ApiKeyRecord | None:
        """How the key stands after the change, if it is the organization's; checked under the row's lock."""
