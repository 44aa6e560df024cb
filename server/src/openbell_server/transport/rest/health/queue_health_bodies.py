"""The response body of the queue health route."""

from collections.abc import Sequence

from msgspec import Struct

from openbell_server.domain.events.outbox import Queue
from openbell_server.domain.events.outbox_health import QueueStanding, QueueVerdict, judge, worst
from openbell_server.transport.rest.wire_types import Moment, body_from


class OutboxBody(Struct, frozen=True):
    """One queue, across organizations; without organization or content of its rows."""

    name: Queue
    verdict: QueueVerdict
    explanation: str
    pending: int
    processing: int
    failed: int
    unacknowledged: int
    completed: int
    oldest_pending_at: Moment | None
    oldest_claim_at: Moment | None
    lag_seconds: float


class OutboxesBody(Struct, frozen=True):
    """All queues at one moment; the verdict is the worst of them."""

    verdict: QueueVerdict
    read_at: Moment
    queues: list[OutboxBody]


def outboxes_body(queues: Sequence[QueueStanding]) -> OutboxesBody:
    bodies = [_body(queue) for queue in queues]
    return OutboxesBody(worst(body.verdict for body in bodies), queues[0].read_at, bodies)


def _body(queue: QueueStanding) -> OutboxBody:
    verdict, explanation = judge(queue)
    return body_from(OutboxBody, queue, name=queue.queue, verdict=verdict, explanation=explanation)
