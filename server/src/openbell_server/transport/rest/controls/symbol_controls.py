"""The manual and time control routes of a symbol."""

from urllib.parse import unquote
from uuid import UUID

from litestar import Router, patch, put
from litestar.params import FromPath

from openbell_server.application.controls.set_symbol_controls import SetSymbolControls
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.identifiers import AccountId
from openbell_server.transport.rest.controls.symbol_control_bodies import (
    ManualControlBody,
    ManualControlRequest,
    TimeControlBody,
    TimeControlRequest,
    manual_control_body,
    time_control_body,
)
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.strict_json import body_reader


def control_routes(enter: Enter, change: SetSymbolControls) -> Router:
    """The routes; paths are not decoded by the router, so a symbol may contain %2F."""

    @put("/")
    async def put_symbol_control(
        request: AnyRequest, account_id: FromPath[UUID], symbol: FromPath[str]
    ) -> ManualControlBody:
        caller = await enter(request, Operation.EDIT_CONTROLS)
        decode = body_reader(request, ManualControlRequest, ManualControlRequest.to_control)
        stored = await change.put_manual(caller, AccountId(account_id), unquote(symbol), decode)
        return manual_control_body(caller.organization_id, AccountId(account_id), *stored)

    @patch("/time")
    async def patch_symbol_time(
        request: AnyRequest, account_id: FromPath[UUID], symbol: FromPath[str]
    ) -> TimeControlBody:
        caller = await enter(request, Operation.EDIT_CONTROLS)
        decode = body_reader(request, TimeControlRequest, TimeControlRequest.to_patch)
        stored = await change.patch_time(caller, AccountId(account_id), unquote(symbol), decode)
        return time_control_body(caller.organization_id, AccountId(account_id), stored)

    return Router(
        "/v1/controls/accounts/{account_id:uuid}/symbols/{symbol:str}",
        route_handlers=[put_symbol_control, patch_symbol_time],
    )
