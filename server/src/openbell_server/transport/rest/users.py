"""The route by which users delete themselves; its errors are plain text."""

from typing import Any

from litestar import Request, delete
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler

from openbell_server.application.delete_user import DeleteUser
from openbell_server.domain.authorization import Operation
from openbell_server.transport.rest.entry import Enter


def user_route(enter: Enter, delete_user: DeleteUser) -> HTTPRouteHandler:
    """The route."""

    @delete("/v1/users/me")
    async def delete_me(request: Request[Any, Any, State]) -> None:
        """Delete the caller for good, at the identity provider."""
        await delete_user(await enter.anywhere(request, Operation.DELETE_ME))

    return delete_me
