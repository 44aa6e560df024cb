"""The route that reports the state of all queues to operators, with advice."""

from collections.abc import Awaitable, Callable, Sequence

from litestar import get
from litestar.handlers import HTTPRouteHandler

from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.events.outbox_health import QueueStanding
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.health.queue_health_bodies import OutboxesBody, outboxes_body


def operations_route(enter: Enter, read_queues: Callable[[], Awaitable[Sequence[QueueStanding]]]) -> HTTPRouteHandler:
    @get("/v1/operations/outboxes")
    async def show_outboxes(request: AnyRequest) -> OutboxesBody:
        await enter.anywhere(request, Operation.READ_OPERATIONS)
        return outboxes_body(await read_queues())

    return show_outboxes
