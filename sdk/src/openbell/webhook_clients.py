"""Webhooks, as both clients manage them."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Unpack

from openbell import webhook_requests
from openbell.plans import AsyncCarryOut, CarryOut, ask, async_pages, fetch, fetch_once, pages
from openbell.webhook_requests import (
    LanesSet,
    Webhook,
    WebhookChanges,
    WebhookLane,
    WebhookLanePage,
    WebhookList,
    WebhookOptions,
    WebhookTest,
)


class Webhooks:
    """The webhooks of the organization."""

    def __init__(self, carry_out: CarryOut) -> None:
        """For the client."""
        self._carry_out = carry_out

    def create(self, url: str, types: Sequence[str], **options: Unpack[WebhookOptions]) -> Webhook:
        """Have events sent to an address; the secret that signs them is told here and never again."""
        return self._carry_out(fetch_once(webhook_requests.create_webhook(url, types, options), Webhook))

    def list(self) -> tuple[Webhook, ...]:
        """Every webhook of the organization, the oldest first."""
        return self._carry_out(fetch(webhook_requests.webhooks(), WebhookList)).data

    def show(self, webhook_id: str) -> Webhook:
        """One webhook, and how its lanes stand."""
        return self._carry_out(fetch(webhook_requests.webhook(webhook_id), Webhook))

    def change(self, webhook_id: str, **changes: Unpack[WebhookChanges]) -> Webhook:
        """Change, pause or go on with a webhook; what is left out stays."""
        return self._carry_out(fetch(webhook_requests.change_webhook(webhook_id, changes), Webhook))

    def delete(self, webhook_id: str) -> None:
        """Remove a webhook for good."""
        self._carry_out(ask(webhook_requests.delete_webhook(webhook_id)))

    def rotate_secret(self, webhook_id: str) -> Webhook:
        """The webhook with its next secret, told here and never again; the one before signs along for a day."""
        return self._carry_out(fetch_once(webhook_requests.rotate_webhook_secret(webhook_id), Webhook))

    def test(self, webhook_id: str) -> WebhookTest:
        """Have a test message sent now, and hear what the target said to it."""
        return self._carry_out(fetch_once(webhook_requests.test_webhook(webhook_id), WebhookTest))

    def lanes(self, webhook_id: str, *, parked: bool | None = None) -> Iterator[WebhookLane]:
        """How far each account has come: all, only those that are parked, or only the others."""
        for page in pages(self._carry_out, webhook_requests.webhook_lanes(webhook_id, parked), WebhookLanePage):
            yield from page.data

    def replay(self, webhook_id: str, after_seq: int, *, account_id: str | None = None) -> int:
        """Send again what came after a number, or skip up to it, on one account or all; how many accounts."""
        request = webhook_requests.replay_webhook(webhook_id, after_seq, account_id)
        return self._carry_out(fetch(request, LanesSet)).lanes

    def resume(self, webhook_id: str, *, account_id: str | None = None) -> int:
        """Try again at once what failed or is parked, on one account or all; how many accounts."""
        return self._carry_out(fetch(webhook_requests.resume_webhook(webhook_id, account_id), LanesSet)).lanes


class AsyncWebhooks:
    """The webhooks of the organization, awaited."""

    def __init__(self, carry_out: AsyncCarryOut) -> None:
        """For the client."""
        self._carry_out = carry_out

    async def create(self, url: str, types: Sequence[str], **options: Unpack[WebhookOptions]) -> Webhook:
        """Have events sent to an address; the secret that signs them is told here and never again."""
        return await self._carry_out(fetch_once(webhook_requests.create_webhook(url, types, options), Webhook))

    async def list(self) -> tuple[Webhook, ...]:
        """Every webhook of the organization, the oldest first."""
        return (await self._carry_out(fetch(webhook_requests.webhooks(), WebhookList))).data

    async def show(self, webhook_id: str) -> Webhook:
        """One webhook, and how its lanes stand."""
        return await self._carry_out(fetch(webhook_requests.webhook(webhook_id), Webhook))

    async def change(self, webhook_id: str, **changes: Unpack[WebhookChanges]) -> Webhook:
        """Change, pause or go on with a webhook; what is left out stays."""
        return await self._carry_out(fetch(webhook_requests.change_webhook(webhook_id, changes), Webhook))

    async def delete(self, webhook_id: str) -> None:
        """Remove a webhook for good."""
        await self._carry_out(ask(webhook_requests.delete_webhook(webhook_id)))

    async def rotate_secret(self, webhook_id: str) -> Webhook:
        """The webhook with its next secret, told here and never again; the one before signs along for a day."""
        return await self._carry_out(fetch_once(webhook_requests.rotate_webhook_secret(webhook_id), Webhook))

    async def test(self, webhook_id: str) -> WebhookTest:
        """Have a test message sent now, and hear what the target said to it."""
        return await self._carry_out(fetch_once(webhook_requests.test_webhook(webhook_id), WebhookTest))

    async def lanes(self, webhook_id: str, *, parked: bool | None = None) -> AsyncIterator[WebhookLane]:
        """How far each account has come: all, only those that are parked, or only the others."""
        async for page in async_pages(
            self._carry_out, webhook_requests.webhook_lanes(webhook_id, parked), WebhookLanePage
        ):
            for lane in page.data:
                yield lane

    async def replay(self, webhook_id: str, after_seq: int, *, account_id: str | None = None) -> int:
        """Send again what came after a number, or skip up to it, on one account or all; how many accounts."""
        request = webhook_requests.replay_webhook(webhook_id, after_seq, account_id)
        return (await self._carry_out(fetch(request, LanesSet))).lanes

    async def resume(self, webhook_id: str, *, account_id: str | None = None) -> int:
        """Try again at once what failed or is parked, on one account or all; how many accounts."""
        return (await self._carry_out(fetch(webhook_requests.resume_webhook(webhook_id, account_id), LanesSet))).lanes
