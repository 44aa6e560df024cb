"""API keys in the database; every change is audited with the principal that made it."""

from typing import Protocol
from uuid import UUID

from openbell_server.domain.access.api_keys import ApiKey, ApiKeyRecord, KeyChange, NewApiKey, PresentedKey
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.identifiers import OrganizationId


class ApiKeyRecords(Protocol):
    async def is_organization_disabled(self, organization_id: OrganizationId) -> bool: ...

    async def add(self, principal: Principal, presented: PresentedKey, new: NewApiKey) -> ApiKeyRecord:
        """Store a key's hash; raises Problem if the key would be expired already."""

    async def list_after(
        self, organization_id: OrganizationId, after: int, limit: int
    ) -> list[tuple[int, ApiKeyRecord]]:
        """Keys with their numbers in commit order, beginning after a number."""

    async def find(self, organization_id: OrganizationId, api_key_id: UUID) -> ApiKeyRecord | None:
        """None unless the key belongs to the organization."""

    async def change(self, principal: Principal, api_key_id: UUID, change: KeyChange) -> ApiKeyRecord | None:
        """The changed key, checked under the row's lock; None unless it belongs to the organization."""


class KeyStore(Protocol):
    async def find_key_across_organizations(self, key_id: str) -> ApiKey | None:
        """Crosses organizations because the caller is not known yet."""
