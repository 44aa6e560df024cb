"""The route that reports the state of the accounts' outbox; its errors are plain text."""

from collections.abc import Awaitable, Callable, Sequence

from litestar import get
from litestar.handlers import HTTPRouteHandler
from msgspec import Struct

from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.events.outbox import OutboxStatus
from openbell_server.domain.events.outbox_health import OutboxCount, oldest_claim, oldest_queued, rows_in
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.wire_types import Moment, body_from


class OutboxHealthEntry(Struct, frozen=True):
    """Rows of one status and one event type, without organization or content."""

    status: OutboxStatus
    event_type: str
    count: int
    oldest_created_at: Moment
    max_attempts: int
    oldest_claimed_at: Moment | None


class OutboxHealthResponse(Struct, frozen=True):
    """The whole queue, across organizations."""

    entries: list[OutboxHealthEntry]
    pending: int
    processing: int
    failed: int
    completed: int
    oldest_claim_at: Moment | None
    oldest_failed_at: Moment | None
    oldest_pending_at: Moment | None


def outbox_health_body(counts: Sequence[OutboxCount]) -> OutboxHealthResponse:
    return OutboxHealthResponse(
        entries=[body_from(OutboxHealthEntry, entry) for entry in counts],
        pending=rows_in(counts, OutboxStatus.PENDING),
        processing=rows_in(counts, OutboxStatus.PROCESSING),
        failed=rows_in(counts, OutboxStatus.FAILED),
        completed=rows_in(counts, OutboxStatus.COMPLETED),
        oldest_claim_at=oldest_claim(counts),
        oldest_failed_at=oldest_queued(counts, OutboxStatus.FAILED),
        oldest_pending_at=oldest_queued(counts, OutboxStatus.PENDING),
    )


def outbox_health_route(enter: Enter, count: Callable[[], Awaitable[Sequence[OutboxCount]]]) -> HTTPRouteHandler:
    @get("/v1/accounts/outbox/health")
    async def outbox_health(request: AnyRequest) -> OutboxHealthResponse:
        await enter.anywhere(request, Operation.READ_OUTBOX)
        return outbox_health_body(await count())

    return outbox_health
