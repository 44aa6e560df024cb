"""Deliver the events of accounts to webhooks: per lane one after the other, in order, each until it is taken."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol
from uuid import UUID

from openbell_server.application.event_documents import event_document
from openbell_server.application.ports.posting import Answer, NotDelivered, Poster
from openbell_server.domain.account_events import AccountEvent, EventKind
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.domain.webhook_signatures import signed_headers
from openbell_server.domain.webhooks import secret_of

# Whoever holds a lane and falls silent loses it after so long; it is held for so long again after each delivery.
LEASE_SECONDS: Final = 30.0
# A delivery takes at most a good ten seconds: later than this none is begun under the same lease.
BEGIN_SECONDS: Final = 15.0
READ_EVENTS_MAX: Final = 50
# After so many deliveries, or so long, others have their turn.
TURN_DELIVERIES_MAX: Final = 50
TURN_SECONDS: Final = 10.0
# In the hands of one process: all, and those whose last try failed. Only healthy ones fill the rest.
LANES_MAX: Final = 48
FAILING_LANES_MAX: Final = 24
BACKOFF_SECONDS: Final = (1.0, 5.0, 30.0, 120.0, 600.0, 3600.0)
RETRY_AFTER_SECONDS_MAX: Final = 3600.0
ERROR_LENGTH_MAX: Final = 500
GONE: Final = 410


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedLane:
    """A lane in our hands, as it was when it was claimed."""

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
    """Where a lane leads now, and which versions of its secret sign."""

    url: str
    kinds: frozenset[EventKind]
    secret_versions: tuple[int, ...]


class LaneStore(Protocol):
    """The lanes, as whoever delivers needs them; whoever has lost a claim changes nothing."""

    async def add_lanes_across_organizations(self) -> int:
        """Begin lanes for accounts created after their webhooks; how many."""

    async def claim_across_organizations(self, limit: int, failing_limit: int) -> list[ClaimedLane]:
        """Take lanes that are behind and due; of each organization and each webhook only so many."""

    async def save(
        self, lane: ClaimedLane, position: int, previous: int | None, status: int | None
    ) -> Destination | None:
        """Keep how far it came, by what was answered, and hold it on; None where nothing is sent there any more."""

    async def release(self, lane: ClaimedLane) -> None:
        """Give it back, due at once."""

    async def fail(
        self, lane: ClaimedLane, status: int | None, error: str, wait_seconds: float, park_seconds: float
    ) -> bool:
        """Give it back for a later try; whether it failed for so long that it is parked."""

    async def end(self, lane: ClaimedLane, url: str) -> None:
        """Give it back: at this address nobody wants anything any more."""


class EventReader(Protocol):
    """The log, page by page."""

    async def read_after(
        self, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
    ) -> list[AccountEvent]:
        """The next events."""


def backoff_seconds(failures: int) -> float:
    """How long to wait after so many failures in a row, before chance spreads it."""
    return BACKOFF_SECONDS[min(max(failures, 1), len(BACKOFF_SECONDS)) - 1]


def gap_document(account_id: AccountId, first: int, last: int) -> dict[str, object]:
    """What is said in the place of events that are no longer kept."""
    return {
        "trading_account_id": str(account_id),
        "account_seq": last,
        "type": "gap",
        "gap": {"first_seq": first, "last_seq": last, "reason": "RETENTION"},
    }


@dataclass(frozen=True, slots=True)
class SignAndPost:
    """One delivery, signed by the secrets of its webhook."""

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
        """Send it once; raises NotDelivered."""
        body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
        keys = [
            secret_of(self.key, organization_id, webhook_id, version).value for version in destination.secret_versions
        ]
        headers = {
            "content-type": "application/json",
            "user-agent": "openbell-webhooks",
            # Only its status counts, and a compressed answer may be a thousand times as long as what came.
            "accept-encoding": "identity",
            **signed_headers(message_id, int(self.now()), body, keys),
        }
        return await self.poster.post(destination.url, headers, body)


@dataclass
class _Turn:
    """One lane while it is in our hands."""

    lane: ClaimedLane
    begun_at: float
    held_at: float
    position: int
    previous: int
    destination: Destination | None = None
    delivered: int = 0


@dataclass
class DeliverWebhooks:
    """Works lanes, each by a task of its own: a slow target holds up nobody but itself."""

    lanes: LaneStore
    events: EventReader
    post: SignAndPost
    jitter: Callable[[], float]
    monotonic: Callable[[], float]
    park_seconds: float
    # Called with whatever breaks a turn, and whenever one has ended.
    on_trouble: Callable[[Exception], None]
    on_end: Callable[[], None]
    # Tries by what became of them: delivered, failed, parked, gone.
    outcomes: Counter[str] = field(default_factory=Counter)
    _turns: dict[asyncio.Task[None], bool] = field(default_factory=dict)
    _draining: bool = False

    async def __call__(self) -> bool:
        """Claim what there is room for, and begin with it; whether there was any."""
        free = LANES_MAX - len(self._turns)
        if free <= 0:
            return False
        claimed_after = self.monotonic()
        failing_free = max(0, FAILING_LANES_MAX - sum(self._turns.values()))
        claimed = await self.lanes.claim_across_organizations(free, min(free, failing_free))
        for lane in claimed:
            task = asyncio.ensure_future(self._run(lane, claimed_after))
            self._turns[task] = lane.failures > 0
            task.add_done_callback(self._ended)
        return bool(claimed)

    async def drain(self, seconds: float) -> None:
        """Begin no delivery any more, and let those under way end; what is cut off is delivered again."""
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

    async def _run(self, lane: ClaimedLane, claimed_after: float) -> None:
        previous = lane.position if lane.previous is None or lane.previous > lane.position else lane.previous
        turn = _Turn(lane, self.monotonic(), claimed_after, lane.position, previous)
        try:
            if await self._work(turn):
                await self.lanes.release(lane)
        except Exception as error:  # noqa: BLE001 - the claim runs out, and the lane is taken up again
            self.on_trouble(error)

    async def _work(self, turn: _Turn) -> bool:
        """Deliver until all is, or others have their turn; whether the lane is still to be given back."""
        lane = turn.lane
        await self._save(turn, None)
        while turn.destination is not None and not self._is_over(turn):
            page = await self.events.read_after(lane.organization_id, lane.account_id, turn.position, READ_EVENTS_MAX)
            # Numbers have no gaps but where the oldest events were removed.
            oldest = page[0].number if page else lane.head + 1
            if oldest > turn.position + 1:
                if not await self._deliver_gap(turn, oldest - 1):
                    return False
            elif not page:
                return True
            elif not await self._deliver_page(turn, page):
                return False
        return True

    async def _deliver_page(self, turn: _Turn, page: Sequence[AccountEvent]) -> bool:
        """Whether the lane is still ours: every event was taken or passed, or it is over for now."""
        saved = turn.position
        for event in page:
            if turn.destination is None or self._is_over(turn):
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
        account_id, first = turn.lane.account_id, turn.position + 1
        document = {**gap_document(account_id, first, last), "prev_seq": turn.previous}
        return await self._deliver(turn, f"{account_id}.{first}-{last}", document, last)

    async def _deliver(self, turn: _Turn, message_id: str, document: Mapping[str, object], number: int) -> bool:
        """Try once; whether it was taken, and that is kept."""
        lane, destination = turn.lane, turn.destination
        assert destination is not None
        answer: Answer | None = None
        error = ""
        try:
            answer = await self.post(lane.organization_id, lane.webhook_id, destination, message_id, document)
        except NotDelivered as trouble:
            error = str(trouble)[:ERROR_LENGTH_MAX]
        if answer is not None and answer.is_taken:
            self.outcomes["delivered"] += 1
            turn.position = turn.previous = number
            turn.delivered += 1
            await self._save(turn, answer.status)
            return True
        if answer is not None and answer.status == GONE:
            self.outcomes["gone"] += 1
            await self.lanes.end(lane, destination.url)
            return False
        await self._fail(turn, answer, error)
        return False

    async def _fail(self, turn: _Turn, answer: Answer | None, error: str) -> None:
        failures = 1 if turn.delivered else turn.lane.failures + 1
        wait = backoff_seconds(failures) * self.jitter()
        status = None
        if answer is not None:
            status, error = answer.status, f"it answered {answer.status}"
            wait = max(wait, min(answer.retry_after, RETRY_AFTER_SECONDS_MAX))
        self.outcomes["failed"] += 1
        if await self.lanes.fail(turn.lane, status, error, wait, self.park_seconds):
            self.outcomes["parked"] += 1

    async def _save(self, turn: _Turn, status: int | None) -> None:
        held_at = self.monotonic()
        turn.destination = await self.lanes.save(turn.lane, turn.position, turn.previous, status)
        turn.held_at = held_at

    def _is_over(self, turn: _Turn) -> bool:
        now = self.monotonic()
        return (
            self._draining
            or turn.delivered >= TURN_DELIVERIES_MAX
            or now - turn.begun_at >= TURN_SECONDS
            # Somebody who slept too long may no longer hold it.
            or now - turn.held_at >= BEGIN_SECONDS
        )
