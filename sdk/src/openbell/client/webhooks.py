# Generated from openbell/async_client/webhooks.py by make generate. Do not edit.
"""Calls about webhooks."""

from collections.abc import Iterator, Sequence
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
from openbell.client.calls import Calls
from openbell.models import PageOf
from openbell.requests import Request, change, page, path_of, without_none


class Webhooks(Calls):
    """The webhooks of the organization. A lane is the delivery of one account's events to one webhook."""

    def create(self, url: str, types: Sequence[str], **options: Unpack[WebhookOptions]) -> Webhook:
        """Create a webhook that sends events of `types` to `url`.

        The result holds the signing `secret`, which cannot be read again. Without `account_ids` it covers all
        accounts, also those opened later.
        """
        body = {"url": url, "types": [*types], **without_none(options)}
        return self._session.fetch_once(change("POST", path_of("webhooks"), body), Webhook)

    def list(self) -> tuple[Webhook, ...]:
        """Read every webhook, the oldest first."""
        found = self._session.get(PageOf[Webhook], path_of("webhooks"))
        return found.data

    def show(self, webhook_id: str) -> Webhook:
        """Read one webhook, with the number of lanes that are behind, failing or parked."""
        return self._session.get(Webhook, path_of("webhooks", webhook_id))

    def change(self, webhook_id: str, **changes: Unpack[WebhookChanges]) -> Webhook:
        """Change or pause a webhook. Fields that are left out stay."""
        body = {name: value for name, value in changes.items() if name != "if_version"}
        request = change("PATCH", path_of("webhooks", webhook_id), body, if_version=changes.get("if_version"))
        return self._session.fetch(request, Webhook)

    def delete(self, webhook_id: str) -> None:
        """Delete a webhook permanently."""
        self._session.request(Request("DELETE", path_of("webhooks", webhook_id)))

    def rotate_secret(self, webhook_id: str) -> Webhook:
        """Replace the signing secret; for 24 hours, deliveries are signed with both.

        The result holds the new `secret`, which cannot be read again.
        """
        request = Request("POST", path_of("webhooks", webhook_id, "rotate-secret"))
        return self._session.fetch_once(request, Webhook)

    def test(self, webhook_id: str) -> WebhookTest:
        """Send a test message now, and return the target's answer."""
        return self._session.fetch_once(Request("POST", path_of("webhooks", webhook_id, "test")), WebhookTest)

    def lanes(self, webhook_id: str, *, parked: bool | None = None) -> Iterator[WebhookLane]:
        """List the delivery progress of each account: all lanes, or only those that are (not) parked."""
        parameter = None if parked is None else str(parked).lower()
        return self._session.items(
            page(path_of("webhooks", webhook_id, "lanes"), parked=parameter), PageOf[WebhookLane]
        )

    def attempts(self, webhook_id: str) -> Iterator[WebhookAttempt]:
        """List recent deliveries and their results, the newest first."""
        return self._session.items(page(path_of("webhooks", webhook_id, "attempts")), PageOf[WebhookAttempt])

    def replay(self, webhook_id: str, after_seq: int, *, account_id: str | None = None) -> int:
        """Continue after an event number, back or ahead, on one account or all; returns the number of lanes."""
        body = without_none({"after_seq": after_seq, "account_id": account_id})
        found = self._session.fetch(change("POST", path_of("webhooks", webhook_id, "replay"), body), LanesSet)
        return found.lanes

    def resume(self, webhook_id: str) -> Webhook:
        """Resume a webhook that is PAUSED or GONE, and retry failing and parked lanes now."""
        return self.change(webhook_id, status="ACTIVE")
