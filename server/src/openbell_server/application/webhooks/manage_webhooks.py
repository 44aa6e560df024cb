"""Manage webhooks: create, list, change, pause and remove them, rotate their secrets, and replay events."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from openbell_server.application.paging import Page, bounded, page_of, start_of
from openbell_server.application.webhooks.ports.store import WebhookStore
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.authorization import require_environment
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.errors import InvalidCommand, Problem
from openbell_server.domain.events.webhook_targets import TargetRefused, target_of
from openbell_server.domain.events.webhooks import (
    DeliveryAttempt,
    DeliveryQueue,
    DeliveryQueueCounts,
    NewWebhook,
    Webhook,
    WebhookChange,
    WebhookSecret,
    secret_of,
)
from openbell_server.domain.identifiers import AccountId

NUMBER_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ManageWebhooks:
    """The webhooks of an organization; an API key sees only those of its environment."""

    store: WebhookStore
    cursor_key: bytes = field(repr=False)
    # Secrets are derived from it; empty: the operator has not enabled webhooks.
    key: bytes = field(repr=False)
    # Hosts at private addresses, as host:port, to which the operator allows webhooks.
    private_targets: Collection[str]

    async def create(
        self, caller: Principal, decode: Callable[[Environment | None], Awaitable[NewWebhook]]
    ) -> tuple[Webhook, WebhookSecret]:
        """A new webhook and its secret, which is returned only once."""
        await self._require_open(caller)
        self._require_key()
        new = await decode(caller.environment)
        self._check_target(new.url)
        webhook = await self.store.add(caller, new)
        return webhook, self._secret(webhook)

    async def list_all(self, caller: Principal) -> list[tuple[Webhook, DeliveryQueueCounts]]:
        """The oldest first."""
        if await self.store.is_organization_disabled(caller.organization_id) is None:
            raise Problem("not_found", "there is no such organization")
        return await self.store.list_all(caller.organization_id, caller.environment)

    async def show(self, caller: Principal, webhook_id: UUID) -> tuple[Webhook, DeliveryQueueCounts]:
        found = await self.store.find(caller.organization_id, webhook_id)
        if found is None:
            raise _no_webhook()
        webhook, counts = found
        if caller.environment is not None:
            if webhook.environment is None:
                raise Problem("environment_mismatch", "the webhook is for accounts of both environments")
            require_environment(caller, webhook.environment)
        return webhook, counts

    async def change(
        self,
        caller: Principal,
        webhook_id: UUID,
        decode: Callable[[], Awaitable[WebhookChange]],
        expected: Collection[int] | None,
    ) -> Webhook:
        """The changed webhook; the change takes effect at once."""
        await self._require_open_webhook(caller, webhook_id)
        change = await decode()
        if change.url is not None:
            self._check_target(change.url)
        return _there(await self.store.change(caller, webhook_id, change, expected))

    async def rotate(
        self, caller: Principal, webhook_id: UUID, expected: Collection[int] | None
    ) -> tuple[Webhook, WebhookSecret]:
        """The webhook and its next secret, which is returned only once; the old secret also signs for one more day."""
        await self._require_open_webhook(caller, webhook_id)
        self._require_key()
        webhook = _there(await self.store.rotate(caller, webhook_id, expected))
        return webhook, self._secret(webhook)

    async def remove(self, caller: Principal, webhook_id: UUID, expected: Collection[int] | None) -> None:
        """Remove it permanently; also allowed in a disabled organization."""
        await self.show(caller, webhook_id)
        if not await self.store.remove(caller, webhook_id, expected):
            raise _no_webhook()

    async def delivery_queues(
        self, caller: Principal, webhook_id: UUID, parked: bool | None, cursor: str | None, limit: int | None
    ) -> Page[DeliveryQueue]:
        scope = f"lanes {caller.organization_id} {webhook_id} {parked}"
        after, rows = start_of(self.cursor_key, scope, cursor), bounded(limit)
        await self.show(caller, webhook_id)
        found = await self.store.list_queues(caller.organization_id, webhook_id, parked, after, rows + 1)
        return page_of(self.cursor_key, scope, cursor, rows, found)

    async def attempts(
        self, caller: Principal, webhook_id: UUID, cursor: str | None, limit: int | None
    ) -> Page[DeliveryAttempt]:
        """The newest first."""
        scope = f"attempts {caller.organization_id} {webhook_id}"
        before, rows = start_of(self.cursor_key, scope, cursor) or NUMBER_MAX, bounded(limit)
        await self.show(caller, webhook_id)
        found = await self.store.list_attempts(caller.organization_id, webhook_id, before, rows + 1)
        return page_of(self.cursor_key, scope, cursor, rows, found)

    async def replay(
        self,
        caller: Principal,
        webhook_id: UUID,
        decode: Callable[[], Awaitable[tuple[AccountId | None, int]]],
    ) -> int:
        """Continue after a number, to send events again or skip them; returns how many queues were set."""
        await self._require_open_webhook(caller, webhook_id)
        account_id, after_seq = await decode()
        queues = await self.store.replay(caller, webhook_id, account_id, after_seq)
        if account_id is not None and not queues:
            raise Problem("not_found", "the webhook covers no such account")
        return queues

    async def ready_to_send(self, caller: Principal, webhook_id: UUID) -> Webhook:
        """The webhook; raises Problem if a test message cannot be sent."""
        webhook = await self._require_open_webhook(caller, webhook_id)
        self._require_key()
        return webhook

    def _secret(self, webhook: Webhook) -> WebhookSecret:
        return secret_of(self.key, webhook.organization_id, webhook.id, webhook.secret_version)

    def _check_target(self, url: str) -> None:
        # Only the URL is checked here; each delivery checks the resolved addresses again.
        try:
            target_of(url, private_targets=self.private_targets)
        except TargetRefused as refusal:
            raise InvalidCommand("url", str(refusal)) from None

    def _require_key(self) -> None:
        if not self.key:
            raise Problem("webhooks_not_configured", "the operator has set no key for webhooks")

    async def _require_open(self, caller: Principal) -> None:
        if await self.store.is_organization_disabled(caller.organization_id):
            raise Problem("organization_disabled", "the organization is disabled")

    async def _require_open_webhook(self, caller: Principal, webhook_id: UUID) -> Webhook:
        webhook, _ = await self.show(caller, webhook_id)
        await self._require_open(caller)
        return webhook


def _there(webhook: Webhook | None) -> Webhook:
    if webhook is None:
        raise _no_webhook()
    return webhook


def _no_webhook() -> Problem:
    return Problem("not_found", "there is no such webhook")
