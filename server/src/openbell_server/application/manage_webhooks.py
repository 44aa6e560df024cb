"""Manage webhooks: make, list, change, pause and remove them, replace their secrets, and set how far they have come."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from uuid import UUID

from openbell_server.application.paging import bounded, cursors_of, start_of
from openbell_server.application.ports.webhooks import WebhookStore
from openbell_server.domain.accounts import Environment
from openbell_server.domain.authorization import require_environment
from openbell_server.domain.errors import InvalidCommand, Problem
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.principals import Principal
from openbell_server.domain.webhook_targets import TargetRefused, target_of
from openbell_server.domain.webhooks import (
    Lane,
    LaneCounts,
    NewWebhook,
    Webhook,
    WebhookChange,
    WebhookSecret,
    secret_of,
)


@dataclass(frozen=True, slots=True)
class LanePage:
    """Lanes in the order of their accounts; the cursors are as of every list."""

    lanes: list[Lane]
    next_cursor: str | None
    last_cursor: str | None


@dataclass(frozen=True, slots=True)
class ManageWebhooks:
    """The webhooks of an organization; whoever calls with a key has those that keys of its environment made."""

    store: WebhookStore
    cursor_key: bytes = field(repr=False)
    # What secrets are derived from; empty: the operator wants no webhooks.
    key: bytes = field(repr=False)
    private_allowed: bool

    async def create(
        self, caller: Principal, decode: Callable[[Environment | None], Awaitable[NewWebhook]]
    ) -> tuple[Webhook, WebhookSecret]:
        """A new webhook with its secret, which is told now and never again."""
        await self._require_open(caller)
        self._require_key()
        new = await decode(caller.environment)
        self._check_target(new.url)
        webhook = await self.store.add(caller, new)
        return webhook, self._secret(webhook)

    async def list_all(self, caller: Principal) -> list[tuple[Webhook, LaneCounts]]:
        """Every webhook, the oldest first."""
        if await self.store.is_organization_disabled(caller.organization_id) is None:
            raise Problem("not_found", "there is no such organization")
        return await self.store.list_all(caller.organization_id, caller.environment)

    async def show(self, caller: Principal, webhook_id: UUID) -> tuple[Webhook, LaneCounts]:
        """One webhook."""
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
        """How it stands after the change; it acts at once."""
        await self._require_open_webhook(caller, webhook_id)
        change = await decode()
        if change.url is not None:
            self._check_target(change.url)
        return _there(await self.store.change(caller, webhook_id, change, expected))

    async def rotate(
        self, caller: Principal, webhook_id: UUID, expected: Collection[int] | None
    ) -> tuple[Webhook, WebhookSecret]:
        """Its next secret, told now and never again; the one before signs along for a day."""
        await self._require_open_webhook(caller, webhook_id)
        self._require_key()
        webhook = _there(await self.store.rotate(caller, webhook_id, expected))
        return webhook, self._secret(webhook)

    async def remove(self, caller: Principal, webhook_id: UUID, expected: Collection[int] | None) -> None:
        """End it for good; in a disabled organization too."""
        await self.show(caller, webhook_id)
        if not await self.store.remove(caller, webhook_id, expected):
            raise _no_webhook()

    async def lanes(
        self, caller: Principal, webhook_id: UUID, parked: bool | None, cursor: str | None, limit: int | None
    ) -> LanePage:
        """How far each account has come."""
        scope = f"lanes {caller.organization_id} {webhook_id} {parked}"
        after, rows = start_of(self.cursor_key, scope, cursor), bounded(limit)
        await self.show(caller, webhook_id)
        found = await self.store.list_lanes(caller.organization_id, webhook_id, parked, after, rows + 1)
        cursors = cursors_of(self.cursor_key, scope, cursor, [number for number, _ in found], rows)
        return LanePage([lane for _, lane in found[:rows]], *cursors)

    async def replay(
        self,
        caller: Principal,
        webhook_id: UUID,
        decode: Callable[[], Awaitable[tuple[AccountId | None, int]]],
    ) -> int:
        """Send again, or skip: go on after a number, on one lane or all; how many lanes."""
        await self._require_open_webhook(caller, webhook_id)
        account_id, after_seq = await decode()
        return _on_a_lane(account_id, await self.store.replay(caller, webhook_id, account_id, after_seq))

    async def resume(
        self, caller: Principal, webhook_id: UUID, decode: Callable[[], Awaitable[AccountId | None]]
    ) -> int:
        """Try again at once what failed or was parked, on one lane or all; how many lanes."""
        await self._require_open_webhook(caller, webhook_id)
        return await self.store.resume(caller, webhook_id, await decode())

    async def ready_to_send(self, caller: Principal, webhook_id: UUID) -> Webhook:
        """The webhook, if something can be sent there by hand."""
        webhook = await self._require_open_webhook(caller, webhook_id)
        self._require_key()
        return webhook

    def _secret(self, webhook: Webhook) -> WebhookSecret:
        return secret_of(self.key, webhook.organization_id, webhook.id, webhook.secret_version)

    def _check_target(self, url: str) -> None:
        """Refuse what the address alone shows; every address that it leads to is checked again at each delivery."""
        try:
            target_of(url, private_allowed=self.private_allowed)
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


def _on_a_lane(account_id: AccountId | None, lanes: int) -> int:
    if account_id is not None and not lanes:
        raise Problem("not_found", "the webhook covers no such account")
    return lanes


def _there(webhook: Webhook | None) -> Webhook:
    if webhook is None:
        raise _no_webhook()
    return webhook


def _no_webhook() -> Problem:
    return Problem("not_found", "there is no such webhook")
