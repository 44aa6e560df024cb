"""Calls about webhooks."""

from collections.abc import AsyncIterator, Sequence
from typing import Unpack

from openbell.access.webhooks import (
    LanesSet,
    Webhook,
    WebhookAttempt,
    WebhookChanges,
    WebhookLane,
    WebhookOptions,
    WebhookTest,
)
from openbell.async_client.calls import AsyncCalls
from openbell.models import PageOf
from openbell.requests import Request, change, page, path_of, without_none


class AsyncWebhooks(AsyncCalls):
    """The webhooks of the organization. A lane is the delivery of one account's events to one webhook."""

    async def create(self, url: str, types: Sequence[str], **options: Unpack[WebhookOptions]) -> Webhook:
        """Create a webhook that sends events of `types` to `url`.

        The result holds the signing `secret`, which cannot be read again. Without `account_ids` it covers all
        accounts, also those opened later.
        """
        body = {"url": url, "types": [*types], **without_none(options)}
        return await self._session.fetch_once(change("POST", path_of("webhooks"), body), Webhook)

    async def list(self) -> tuple[Webhook, ...]:
        """Read every webhook, the oldest first."""
        found = await self._session.get(PageOf[Webhook], path_of("webhooks"))
        return found.data

    async def show(self, webhook_id: str) -> Webhook:
        """Read one webhook, with the number of lanes that are behind, failing or parked."""
        return await self._session.get(Webhook, path_of("webhooks", webhook_id))

    async def change(self, webhook_id: str, **changes: Unpack[WebhookChanges]) -> Webhook:
        """Change or pause a webhook. Fields that are left out stay."""
        body = {name: value for name, value in changes.items() if name != "if_version"}
        request = change("PATCH", path_of("webhooks", webhook_id), body, if_version=changes.get("if_version"))
        return await self._session.fetch(request, Webhook)

    async def delete(self, webhook_id: str) -> None:
        """Delete a webhook permanently."""
        await self._session.request(Request("DELETE", path_of("webhooks", webhook_id)))

    async def rotate_secret(self, webhook_id: str) -> Webhook:
        """Replace the signing secret; for 24 hours, deliveries are signed with both.

        The result holds the new `secret`, which cannot be read again.
        """
        request = Request("POST", path_of("webhooks", webhook_id, "rotate-secret"))
        return await self._session.fetch_once(request, Webhook)

    async def test(self, webhook_id: str) -> WebhookTest:
        """Send a test message now, and return the target's answer."""
        return await self._session.fetch_once(Request("POST", path_of("webhooks", webhook_id, "test")), WebhookTest)

    def lanes(self, webhook_id: str, *, parked: bool | None = None) -> AsyncIterator[WebhookLane]:
        """List the delivery progress of each account: all lanes, or only those that are (not) parked."""
        parameter = None if parked is None else str(parked).lower()
        return self._session.items(
            page(path_of("webhooks", webhook_id, "lanes"), parked=parameter), PageOf[WebhookLane]
        )

    def attempts(self, webhook_id: str) -> AsyncIterator[WebhookAttempt]:
        """List recent deliveries and their results, the newest first."""
        return self._session.items(page(path_of("webhooks", webhook_id, "attempts")), PageOf[WebhookAttempt])

    async def replay(self, webhook_id: str, after_seq: int, *, account_id: str | None = None) -> int:
        """Continue after an event number, back or ahead, on one account or all; returns the number of lanes."""
        body = without_none({"after_seq": after_seq, "account_id": account_id})
        found = await self._session.fetch(change("POST", path_of("webhooks", webhook_id, "replay"), body), LanesSet)
        return found.lanes

    async def resume(self, webhook_id: str) -> Webhook:
        """Resume a webhook that is PAUSED or GONE, and retry failing and parked lanes now."""
        return await self.change(webhook_id, status="ACTIVE")
