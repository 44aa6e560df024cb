"""Webhooks in the database; every change is audited with the principal that made it."""

from collections.abc import Collection
from typing import Protocol
from uuid import UUID

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.events.webhooks import (
    DeliveryAttempt,
    DeliveryQueue,
    DeliveryQueueCounts,
    NewWebhook,
    Webhook,
    WebhookChange,
)
from openbell_server.domain.identifiers import AccountId, OrganizationId


class WebhookStore(Protocol):
    async def is_organization_disabled(self, organization_id: OrganizationId) -> bool | None:
        """None if there is no such organization."""

    async def add(self, principal: Principal, new: NewWebhook) -> Webhook:
        """Store it, with a delivery queue for each account that it covers, which starts after the newest event."""

    async def list_all(
        self, organization_id: OrganizationId, environment: Environment | None
    ) -> list[tuple[Webhook, DeliveryQueueCounts]]:
        """All webhooks (None) or those of one environment, the oldest first."""

    async def find(
        self, organization_id: OrganizationId, webhook_id: UUID
    ) -> tuple[Webhook, DeliveryQueueCounts] | None:
        """None unless the webhook belongs to the organization."""

    async def change(
        self, principal: Principal, webhook_id: UUID, change: WebhookChange, expected: Collection[int] | None
    ) -> Webhook | None:
        """The changed webhook, or None; queues of newly covered accounts start after the newest event.

        Status ACTIVE also retries failed and parked queues at once.
        """

    async def rotate(self, principal: Principal, webhook_id: UUID, expected: Collection[int] | None) -> Webhook | None:
        """Set the next version of its secret; the old version also signs for a while."""

    async def remove(self, principal: Principal, webhook_id: UUID, expected: Collection[int] | None) -> bool:
        """Remove it with its delivery queues; returns whether it existed."""

    async def list_queues(
        self, organization_id: OrganizationId, webhook_id: UUID, parked: bool | None, after: int, limit: int
    ) -> list[tuple[int, DeliveryQueue]]:
        """Queues with the numbers of their accounts, in that order; parked None lists all."""

    async def list_attempts(
        self, organization_id: OrganizationId, webhook_id: UUID, before: int, limit: int
    ) -> list[tuple[int, DeliveryAttempt]]:
        """Attempts with their numbers, the newest first, beginning before a number."""

    async def replay(self, principal: Principal, webhook_id: UUID, account_id: AccountId | None, after_seq: int) -> int:
        """Continue after this number, at most the newest, for one account or all; returns how many queues."""
