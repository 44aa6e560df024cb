"""The control routes of a symbol."""

from typing import Any
from urllib.parse import unquote
from uuid import UUID

from litestar import Request, Router, get, patch, put
from litestar.datastructures import State
from litestar.params import FromPath

from openbell_server.application.set_symbol_controls import SetSymbolControls, TimePatch
from openbell_server.domain.authorization import Operation
from openbell_server.domain.controls import ManualControl
from openbell_server.domain.identifiers import AccountId
from openbell_server.transport.rest.control_bodies import (
    ManualControlBody,
    ManualControlRequest,
    TimeControlBody,
    TimeControlRequest,
    manual_control_body,
    time_control_body,
)
from openbell_server.transport.rest.entry import Enter
from openbell_server.transport.rest.intents import json_body_of
from openbell_server.transport.rest.strict_json import read_json


def control_routes(enter: Enter, controls: SetSymbolControls) -> Router:
    """The controls of a symbol on an account; the path is raw, so that %2F is a part of the symbol."""

    @put("/")
    async def put_symbol_control(
        request: Request[Any, Any, State], account_id: FromPath[UUID], symbol: FromPath[str]
    ) -> ManualControlBody:
        """Create or replace the manual control."""
        caller = await enter(request, Operation.EDIT_CONTROLS)

        async def decode() -> ManualControl:
            return read_json(await json_body_of(request), ManualControlRequest).to_control()

        kept = await controls.put_manual(caller, AccountId(account_id), unquote(symbol), decode)
        return manual_control_body(caller.organization_id, AccountId(account_id), *kept)

    @patch("/time")
    async def patch_symbol_time(
        request: Request[Any, Any, State], account_id: FromPath[UUID], symbol: FromPath[str]
    ) -> TimeControlBody:
        """Create or change the time control."""
        caller = await enter(request, Operation.EDIT_CONTROLS)

        async def decode() -> TimePatch:
            return read_json(await json_body_of(request), TimeControlRequest).to_patch()

        kept = await controls.patch_time(caller, AccountId(account_id), unquote(symbol), decode)
        return time_control_body(caller.organization_id, AccountId(account_id), kept)

    @get("/")
    async def show_symbol_control(
        request: Request[Any, Any, State], account_id: FromPath[UUID], symbol: FromPath[str]
    ) -> ManualControlBody:
        """The manual control, if one was ever set."""
        caller = await enter(request, Operation.READ_CONTROLS)
        found = await controls.read_manual(caller, AccountId(account_id), unquote(symbol))
        return manual_control_body(caller.organization_id, AccountId(account_id), *found)

    @get("/time")
    async def show_symbol_time(
        request: Request[Any, Any, State], account_id: FromPath[UUID], symbol: FromPath[str]
    ) -> TimeControlBody:
        """The time control, if one was ever set."""
        caller = await enter(request, Operation.READ_CONTROLS)
        found = await controls.read_time(caller, AccountId(account_id), unquote(symbol))
        return time_control_body(caller.organization_id, AccountId(account_id), found)

    return Router(
        "/v1/controls/accounts/{account_id:uuid}/symbols/{symbol:str}",
        route_handlers=[put_symbol_control, patch_symbol_time, show_symbol_control, show_symbol_time],
    )
