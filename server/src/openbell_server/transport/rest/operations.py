"""The route that tells operators how all queues stand, and what to do."""

from collections.abc import Awaitable, Callable, Sequence

from litestar import get
from litestar.handlers import HTTPRouteHandler

from openbell_server.domain.authorization import Operation
from openbell_server.domain.outbox_health import QueueStanding
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.operations_bodies import OutboxesBody, outboxes_body


def operations_route(enter: Enter, read_queues: Callable[[], Awaitable[Sequence[QueueStanding]]]) -> HTTPRouteHandler:
    """The route."""

    @get("/v1/operations/outboxes")
    async def show_outboxes(request: AnyRequest) -> OutboxesBody:
        """How all queues stand."""
        await enter.anywhere(request, Operation.READ_OPERATIONS)
        return outboxes_body(await read_queues())

    return show_outboxes
