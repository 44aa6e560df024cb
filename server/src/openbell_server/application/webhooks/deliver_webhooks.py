"""Deliver events to webhooks: each account of a webhook has a delivery queue, which sends its events in order.

The REST API calls a delivery queue a lane.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol
from uuid import UUID

from openbell_server.application.events.event_json import event_document
from openbell_server.application.webhooks.ports.posting import Answer, DeliveryFailure, NotDelivered, Poster
from openbell_server.domain.events.account_events import AccountEvent, EventKind, gap_reason
from openbell_server.domain.events.webhook_signatures import signed_headers
from openbell_server.domain.events.webhooks import secret_of
from openbell_server.domain.identifiers import AccountId, OrganizationId

# The lease on a claimed queue; each delivery renews it.
LEASE_SECONDS: Final = 30.0
# A delivery takes little more than 10 s at most; none is started later than this under one lease.
BEGIN_SECONDS: Final = 15.0
READ_EVENTS_MAX: Final = 50
# After this many deliveries, or this long, the queue is released so that others are served.
TURN_DELIVERIES_MAX: Final = 50
TURN_SECONDS: Final = 10.0
# Queues claimed by one process: all, and those whose last attempt failed.
QUEUES_MAX: Final = 48
FAILING_QUEUES_MAX: Final = 24
BACKOFF_SECONDS: Final = (1.0, 5.0, 30.0, 120.0, 600.0, 3600.0)
RETRY_AFTER_SECONDS_MAX: Final = 3600.0
ERROR_LENGTH_MAX: Final = 500
GONE: Final = 410


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedQueue:
    """A delivery queue as it was when it was claimed."""

    organization_id: OrganizationId
    webhook_id: UUID
    account_id: AccountId
    claim_token: UUID
    position: int
    # The number of the event delivered last, or None.
    previous: int | None
    # The number of the account's newest event.
    head: int
    failures: int


@dataclass(frozen=True, slots=True)
class Destination:
    """The current target of a queue, and the versions of the secret that sign."""

    url: str
    kinds: frozenset[EventKind]
    secret_versions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The result of sending a message: the target's status, and the trouble if the message was not accepted."""

    message_id: str
    duration_millis: int
    status: int | None = None
    trouble: DeliveryFailure | None = None
    message: str | None = None
    retry_after: float = 0.0


class DeliveryQueueStore(Protocol):
    """Delivery queues; a write with a lost claim changes nothing."""

    async def add_queues_across_organizations(self) -> int:
        """Create queues for accounts that are newer than their webhooks; returns how many."""

    async def claim_across_organizations(self, limit: int, failing_limit: int) -> list[ClaimedQueue]:
        """Claim queues that are behind and due; the number per organization and per webhook is bounded."""

    async def save(
        self, queue: ClaimedQueue, position: int, previous: int | None, tried: Tried | None
    ) -> Destination | None:
        """Save the position and the attempt, and renew the lease; None if nothing may be sent any more."""

    async def release(self, queue: ClaimedQueue) -> None:
        """Release the claim; the queue is due at once."""

    async def fail(
        self, queue: ClaimedQueue, number: int, tried: Tried, wait_seconds: float, park_seconds: float
    ) -> bool:
        """Save the attempt and release the claim for a later one; returns whether the queue is parked.

        It is parked if it failed for park_seconds. `number` is that of the event.
        """

    async def end(self, queue: ClaimedQueue, number: int, tried: Tried, url: str) -> None:
        """Save the attempt, release the claim and stop deliveries to this URL, which answered 410."""


class EventReader(Protocol):
    async def bounds(self, organization_id: OrganizationId, account_id: AccountId) -> tuple[int, int]:
        """The number of the newest pruned event, and of the newest event."""

    async def read_after(
        self, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
    ) -> list[AccountEvent]: ...


def backoff_seconds(failures: int) -> float:
    """How long to wait after this many failures in a row, without jitter."""
    return BACKOFF_SECONDS[min(max(failures, 1), len(BACKOFF_SECONDS)) - 1]


def gap_document(account_id: AccountId, first: int, last: int, reason: str) -> dict[str, object]:
    """The message sent in place of events that were deleted."""
    return {
        "account_id": str(account_id),
        "account_seq": last,
        "type": "GAP",
        "gap": {"first_seq": first, "last_seq": last, "reason": reason},
    }


@dataclass(frozen=True, slots=True)
class SignAndPost:
    poster: Poster
    key: bytes = field(repr=False)
    now: Callable[[], float]

    async def __call__(
        self,
        organization_id: OrganizationId,
        webhook_id: UUID,
        destination: Destination,
        message_id: str,
        document: Mapping[str, object],
    ) -> Answer:
        """Sign and send one message; raises NotDelivered."""
        body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
        keys = [
            secret_of(self.key, organization_id, webhook_id, version).value for version in destination.secret_versions
        ]
        headers = {
            "content-type": "application/json",
            "user-agent": "openbell-webhooks",
            # Only the status is used, and a compressed answer could expand to a thousand times its size.
            "accept-encoding": "identity",
            **signed_headers(message_id, int(self.now()), body, keys),
        }
        return await self.poster.post(destination.url, headers, body)


async def try_once(
    post: SignAndPost,
    monotonic: Callable[[], float],
    organization_id: OrganizationId,
    webhook_id: UUID,
    destination: Destination,
    message_id: str,
    document: Mapping[str, object],
) -> Tried:
    begun_at = monotonic()
    status, trouble, message, retry_after = None, None, None, 0.0
    try:
        answer = await post(organization_id, webhook_id, destination, message_id, document)
        status, retry_after = answer.status, answer.retry_after
        if not answer.is_taken:
            trouble, message = DeliveryFailure.NOT_TAKEN, f"it answered {status}"
    except NotDelivered as error:
        trouble, message = error.trouble, str(error)[:ERROR_LENGTH_MAX]
    return Tried(
        message_id=message_id,
        duration_millis=round((monotonic() - begun_at) * 1000),
        status=status,
        trouble=trouble,
        message=message,
        retry_after=retry_after,
    )


@dataclass
class _Turn:
    """A claimed queue and the progress of its deliveries."""

    queue: ClaimedQueue
    begun_at: float
    held_at: float
    position: int
    previous: int
    destination: Destination | None = None
    delivered: int = 0


@dataclass
class DeliverWebhooks:
    """Serves each claimed queue in its own task, so that a slow target delays only itself."""

    queues: DeliveryQueueStore
    events: EventReader
    post: SignAndPost
    jitter: Callable[[], float]
    monotonic: Callable[[], float]
    park_seconds: float
    # on_trouble is called with an unexpected error of a turn, on_end after every turn.
    on_trouble: Callable[[Exception], None]
    on_end: Callable[[], None]
    # Attempts by result: delivered, failed, parked, gone.
    outcomes: Counter[str] = field(default_factory=Counter)
    _turns: dict[asyncio.Task[None], bool] = field(default_factory=dict)
    _draining: bool = False

    async def __call__(self) -> bool:
        """Claim as many queues as there is room for and start serving them; returns whether there were any."""
        free = QUEUES_MAX - len(self._turns)
        if free <= 0:
            return False
        claimed_after = self.monotonic()
        failing_free = max(0, FAILING_QUEUES_MAX - sum(self._turns.values()))
        claimed = await self.queues.claim_across_organizations(free, min(free, failing_free))
        for queue in claimed:
            task = asyncio.ensure_future(self._run(queue, claimed_after))
            self._turns[task] = queue.failures > 0
            task.add_done_callback(self._ended)
        return bool(claimed)

    async def drain(self, seconds: float) -> None:
        """Start no more deliveries and wait for the running ones; those cut off are delivered again later."""
        self._draining = True
        if self._turns:
            await asyncio.wait(self._turns, timeout=seconds)
        left = list(self._turns)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._turns[task]
        self.on_end()

    async def _run(self, queue: ClaimedQueue, claimed_after: float) -> None:
        previous = queue.position if queue.previous is None or queue.previous > queue.position else queue.previous
        turn = _Turn(queue, self.monotonic(), claimed_after, queue.position, previous)
        try:
            if await self._work(turn):
                await self.queues.release(queue)
        except Exception as error:  # noqa: BLE001 - the claim expires, and the queue is claimed again
            self.on_trouble(error)

    async def _work(self, turn: _Turn) -> bool:
        """Deliver until the queue is empty or its turn is over; returns whether the claim must still be released."""
        queue = turn.queue
        await self._save(turn, None)
        while turn.destination is not None and not self._is_over(turn):
            page = await self.events.read_after(queue.organization_id, queue.account_id, turn.position, READ_EVENTS_MAX)
            # Numbers have no gaps except where events were deleted.
            oldest = page[0].number if page else queue.head + 1
            if oldest > turn.position + 1:
                if not await self._deliver_gap(turn, oldest - 1):
                    return False
            elif not page:
                return True
            elif not await self._deliver_page(turn, page):
                return False
        return True

    async def _deliver_page(self, turn: _Turn, page: Sequence[AccountEvent]) -> bool:
        """Returns whether the claim is still held: False after a failed delivery."""
        saved = turn.position
        for event in page:
            if turn.destination is None or self._is_over(turn) or event.number != turn.position + 1:
                break
            if event.kind in turn.destination.kinds:
                document = {**event_document(event), "prev_seq": turn.previous}
                if not await self._deliver(turn, event.event_id, document, event.number):
                    return False
                saved = event.number
            turn.position = event.number
        if turn.position > saved and turn.destination is not None:
            await self._save(turn, None)
        return True

    async def _deliver_gap(self, turn: _Turn, last: int) -> bool:
        account_id, first = turn.queue.account_id, turn.position + 1
        floor, _ = await self.events.bounds(turn.queue.organization_id, account_id)
        # Pruned ones first; the rest is missing for another reason.
        last = floor if first <= floor < last else last
        document = {**gap_document(account_id, first, last, gap_reason(last, floor)), "prev_seq": turn.previous}
        return await self._deliver(turn, f"{account_id}.{first}-{last}", document, last)

    async def _deliver(self, turn: _Turn, message_id: str, document: Mapping[str, object], number: int) -> bool:
        """Try once; returns whether the target accepted the message and the position was saved."""
        queue, destination = turn.queue, turn.destination
        assert destination is not None
        tried = await try_once(
            self.post, self.monotonic, queue.organization_id, queue.webhook_id, destination, message_id, document
        )
        if tried.trouble is None:
            self.outcomes["delivered"] += 1
            turn.position = turn.previous = number
            turn.delivered += 1
            await self._save(turn, tried)
            return True
        if tried.status == GONE:
            self.outcomes["gone"] += 1
            await self.queues.end(queue, number, tried, destination.url)
            return False
        failures = 1 if turn.delivered else queue.failures + 1
        wait = max(backoff_seconds(failures) * self.jitter(), min(tried.retry_after, RETRY_AFTER_SECONDS_MAX))
        self.outcomes["failed"] += 1
        if await self.queues.fail(queue, number, tried, wait, self.park_seconds):
            self.outcomes["parked"] += 1
        return False

    async def _save(self, turn: _Turn, tried: Tried | None) -> None:
        held_at = self.monotonic()
        turn.destination = await self.queues.save(turn.queue, turn.position, turn.previous, tried)
        turn.held_at = held_at

    def _is_over(self, turn: _Turn) -> bool:
        now = self.monotonic()
        return (
            self._draining
            or turn.delivered >= TURN_DELIVERIES_MAX
            or now - turn.begun_at >= TURN_SECONDS
            # After a pause the lease may have expired.
            or now - turn.held_at >= BEGIN_SECONDS
        )
