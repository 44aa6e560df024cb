"""The route by which users delete themselves; its errors are plain text."""

from litestar import delete
from litestar.handlers import HTTPRouteHandler

from openbell_server.application.access.delete_user import DeleteUser
from openbell_server.domain.access.authorization import Operation
from openbell_server.transport.rest.entry import AnyRequest, Enter


def user_route(enter: Enter, delete_user: DeleteUser) -> HTTPRouteHandler:
    @delete("/v1/users/me")
    async def delete_me(request: AnyRequest) -> None:
        await delete_user(await enter.anywhere(request, Operation.DELETE_ME))

    return delete_me
