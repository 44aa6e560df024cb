"""What managing webhooks needs from the database; every change names who makes it, and is audited."""

from collections.abc import Collection
from typing import Protocol
from uuid import UUID

from openbell_server.domain.accounts import Environment
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.domain.principals import Principal
from openbell_server.domain.webhooks import Lane, LaneCounts, NewWebhook, Webhook, WebhookChange


class WebhookStore(Protocol):
    """The webhooks of an organization, and their lanes."""

    async def is_organization_disabled(self, organization_id: OrganizationId) -> bool | None:
        """Whether nothing of the organization may be changed now; None if there is no such organization."""

    async def add(self, principal: Principal, new: NewWebhook) -> Webhook:
        """Store it, with a lane for each account that it covers, from the account's newest event on."""

    async def list_all(
        self, organization_id: OrganizationId, environment: Environment | None
    ) -> list[tuple[Webhook, LaneCounts]]:
        """Every webhook, or those of one environment, the oldest first."""

    async def find(self, organization_id: OrganizationId, webhook_id: UUID) -> tuple[Webhook, LaneCounts] | None:
        """The webhook, if it is the organization's."""

    async def change(
        self, principal: Principal, webhook_id: UUID, change: WebhookChange, expected: Collection[int] | None
    ) -> Webhook | None:
        """How it stands after the change, if it is there; accounts that it covers now begin with what happens next."""

    async def rotate(self, principal: Principal, webhook_id: UUID, expected: Collection[int] | None) -> Webhook | None:
        """Give it the next version of its secret; the one before signs along for a while."""

    async def remove(self, principal: Principal, webhook_id: UUID, expected: Collection[int] | None) -> bool:
        """Remove it with its lanes; whether it was there."""

    async def list_lanes(
        self, organization_id: OrganizationId, webhook_id: UUID, parked: bool | None, after: int, limit: int
    ) -> list[tuple[int, Lane]]:
        """Lanes in the order of their accounts with the accounts' numbers, all or only parked ones or the others."""

    async def replay(self, principal: Principal, webhook_id: UUID, account_id: AccountId | None, after_seq: int) -> int:
        """Go on after this number, or the newest if that is less, on one lane or all; how many."""

    async def resume(self, principal: Principal, webhook_id: UUID, account_id: AccountId | None) -> int:
        """Try again at once where it failed, one lane or all; how many."""
