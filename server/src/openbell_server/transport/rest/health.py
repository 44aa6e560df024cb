"""The route that says whether this process can work."""

from collections.abc import Awaitable, Callable
from typing import Literal

from litestar import get
from litestar.handlers import HTTPRouteHandler
from msgspec import Struct


class HealthBody(Struct, frozen=True):
    """Alive, and the database answers."""

    status: Literal["ok"]


def health_route(check_database: Callable[[], Awaitable[None]]) -> HTTPRouteHandler:
    """The route."""

    @get("/healthz")
    async def healthz() -> HealthBody:
        """Alive, and the database answers."""
        await check_database()
        return HealthBody("ok")

    return healthz
