"""Test a webhook: send one message that is not an event, and return the target's answer."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from openbell_server.application.events.event_json import moment_text
from openbell_server.application.ports.ids import Ids
from openbell_server.application.webhooks.deliver_webhooks import Destination, SignAndPost, Tried, try_once
from openbell_server.application.webhooks.manage_webhooks import ManageWebhooks
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.errors import RateLimited
from openbell_server.domain.identifiers import OrganizationId

TEST_TYPE: Final = "webhook.test"
# Shorter than clients wait for our answer.
TRY_SECONDS: Final = 8
# Concurrent tests of one organization: each holds a request and an outgoing connection.
TRIES_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class TryWebhooks:
    """Sends like a delivery, with the same address checks, signatures and time limits; no delivery queue changes."""

    manage: ManageWebhooks
    ids: Ids
    post: SignAndPost
    monotonic: Callable[[], float]
    _under_way: Counter[OrganizationId] = field(default_factory=Counter)

    async def __call__(self, caller: Principal, webhook_id: UUID) -> Tried:
        """Send once, also to a paused webhook; raises RateLimited while TRIES_MAX tests run."""
        webhook = await self.manage.ready_to_send(caller, webhook_id)
        now = datetime.fromtimestamp(self.post.now(), UTC)
        (number,) = await self.ids.new_ids(1)
        destination = Destination(webhook.url, webhook.kinds, webhook.secret_versions(now))
        if self._under_way[caller.organization_id] >= TRIES_MAX:
            raise RateLimited(TRIES_MAX, TRY_SECONDS, TRY_SECONDS)
        self._under_way[caller.organization_id] += 1
        try:
            return await self._send(webhook.organization_id, webhook_id, destination, f"test_{number}", now)
        finally:
            self._under_way[caller.organization_id] -= 1
            if not self._under_way[caller.organization_id]:
                del self._under_way[caller.organization_id]

    async def _send(
        self,
        organization_id: OrganizationId,
        webhook_id: UUID,
        destination: Destination,
        message_id: str,
        now: datetime,
    ) -> Tried:
        document = {
            "event_id": message_id,
            "type": TEST_TYPE,
            "occurred_at": moment_text(now),
            "webhook_id": str(webhook_id),
        }
        return await try_once(self.post, self.monotonic, organization_id, webhook_id, destination, message_id, document)
