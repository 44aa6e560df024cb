"""The route that says whether this process can work."""

from collections.abc import Awaitable, Callable

from litestar import get
from litestar.handlers import HTTPRouteHandler

from openbell_server.transport.rest.entry import AnyRequest, refuse_unknown_query
from openbell_server.transport.rest.health_bodies import HealthBody


def health_route(check_database: Callable[[], Awaitable[None]]) -> HTTPRouteHandler:
    """The route."""

    @get("/healthz")
    async def healthz(request: AnyRequest) -> HealthBody:
        """Alive, and the database answers."""
        refuse_unknown_query(request)
        await check_database()
        return HealthBody("ok")

    return healthz
