"""The route that reports whether this process works and reaches its database."""

from collections.abc import Awaitable, Callable
from typing import Literal

from litestar import get
from litestar.handlers import HTTPRouteHandler
from msgspec import Struct

from openbell_server.transport.rest.entry import AnyRequest, refuse_unknown_query


class HealthBody(Struct, frozen=True):
    """The process runs and the database answers."""

    status: Literal["ok"]


def health_route(check_database: Callable[[], Awaitable[None]]) -> HTTPRouteHandler:
    @get("/healthz")
    async def healthz(request: AnyRequest) -> HealthBody:
        refuse_unknown_query(request)
        await check_database()
        return HealthBody("ok")

    return healthz
