"""Routes of desk commands."""

from typing import Annotated
from uuid import UUID

from litestar import Response, Router, get, post
from litestar.params import FromPath
from msgspec import UNSET, Meta, Struct, UnsetType

from openbell_server.application.desk.manage_desk_commands import ManageDeskCommands
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.orders.desk_commands import (
    DeskCommand,
    DeskCommandType,
    DeskReason,
    DeskScope,
    DeskStatus,
    OrderOutcome,
    totals_of,
)
from openbell_server.transport.rest.entry import AnyRequest, Enter, idempotency_key_of
from openbell_server.transport.rest.query_parameters import page_of
from openbell_server.transport.rest.strict_json import body_reader
from openbell_server.transport.rest.wire_types import Moment, PageOf, body_from

SymbolText = Annotated[str, Meta(pattern="^[A-Za-z0-9.\\-/:_]{1,32}$")]


class SubmitDeskCommandBody(Struct, forbid_unknown_fields=True, frozen=True):
    """CANCEL_ALL may name a symbol and an API key; CLOSE_POSITION names a symbol."""

    type: DeskCommandType
    symbol: SymbolText | UnsetType = UNSET
    # Only orders that this key created.
    api_key_id: UUID | UnsetType = UNSET

    def to_scope(self) -> DeskScope:
        """The symbol is as the caller spelled it."""
        symbol = None if self.symbol is UNSET else Symbol(self.symbol)
        api_key_id = None if self.api_key_id is UNSET else self.api_key_id
        if self.type is DeskCommandType.CLOSE_POSITION and symbol is None:
            raise InvalidCommand("symbol", "is missing: CLOSE_POSITION closes the position in one symbol")
        if self.type is DeskCommandType.CLOSE_POSITION and api_key_id is not None:
            raise InvalidCommand("api_key_id", "must be absent: a position does not belong to a key")
        return DeskScope(command_type=self.type, symbol=symbol, api_key_id=api_key_id)


class DeskCommandBody(Struct, frozen=True, kw_only=True):
    """A desk command and how far it is."""

    id: UUID
    account_id: UUID
    type: DeskCommandType
    status: DeskStatus
    # Orders in its scope when it was accepted.
    orders: int
    # Open orders in its scope that were placed elsewhere, which it does not cancel.
    external_orders: int
    principal_type: str
    principal_id: str
    created_at: Moment
    # Null while there is something to do.
    ended_at: Moment | None
    symbol: str | UnsetType = UNSET
    api_key_id: UUID | UnsetType = UNSET
    # Orders per outcome, without zeros; absent in lists.
    outcomes: dict[str, int] | UnsetType = UNSET
    # Why a position is not closed yet, or was not closed.
    reason: DeskReason | UnsetType = UNSET
    detail: str | UnsetType = UNSET
    # Of the rules that refused the closing order.
    receipt_id: UUID | UnsetType = UNSET
    # The order that closes the position.
    closing_intent_id: UUID | UnsetType = UNSET


class DeskCommandPageBody(PageOf[DeskCommandBody], frozen=True):
    """A page of desk commands, the newest first."""


class DeskOrderBody(Struct, frozen=True):
    """An order of a desk command."""

    intent_id: UUID
    symbol: str
    outcome: OrderOutcome
    filled_quantity: str
    # Cancels that this command submitted for the order.
    cancels: int
    updated_at: Moment
    # Why the last cancel had no effect.
    cancel_reason: str | UnsetType = UNSET


class DeskOrderPageBody(PageOf[DeskOrderBody], frozen=True):
    """A page of the orders of a desk command."""


def desk_command_routes(enter: Enter, desk: ManageDeskCommands) -> Router:
    @post("/", status_code=202)
    async def submit_desk_command(request: AnyRequest, account_id: FromPath[UUID]) -> Response[DeskCommandBody]:
        caller = await enter(request, Operation.SUBMIT_DESK_COMMAND)
        await enter.limit.command(caller, AccountId(account_id), cancels=True)
        read = body_reader(request, SubmitDeskCommandBody, SubmitDeskCommandBody.to_scope)
        command, is_replay = await desk.submit(caller, AccountId(account_id), read, idempotency_key_of(request))
        headers = {"location": f"/v1/accounts/{account_id}/desk-commands/{command.id}"}
        if is_replay:
            headers["idempotency-replayed"] = "true"
        return Response(_body(account_id, command), headers=headers)

    @get("/")
    async def list_desk_commands(request: AnyRequest, account_id: FromPath[UUID]) -> DeskCommandPageBody:
        caller = await enter(request, Operation.READ_INTENTS)
        page = await desk.page(caller, AccountId(account_id), *page_of(request))
        data = [_body(account_id, command) for command in page.rows]
        return DeskCommandPageBody(data, page.next_cursor, page.last_cursor)

    @get("/{desk_command_id:uuid}")
    async def show_desk_command(
        request: AnyRequest, account_id: FromPath[UUID], desk_command_id: FromPath[UUID]
    ) -> DeskCommandBody:
        caller = await enter(request, Operation.READ_INTENTS)
        command, outcomes = await desk.find(caller, AccountId(account_id), desk_command_id)
        return _body(account_id, command, totals_of(outcomes))

    @get("/{desk_command_id:uuid}/orders")
    async def list_desk_orders(
        request: AnyRequest, account_id: FromPath[UUID], desk_command_id: FromPath[UUID]
    ) -> DeskOrderPageBody:
        caller = await enter(request, Operation.READ_INTENTS)
        page = await desk.orders(caller, AccountId(account_id), desk_command_id, *page_of(request))
        data = [body_from(DeskOrderBody, order) for order in page.rows]
        return DeskOrderPageBody(data, page.next_cursor, page.last_cursor)

    return Router(
        "/v1/accounts/{account_id:uuid}/desk-commands",
        route_handlers=[submit_desk_command, list_desk_commands, show_desk_command, list_desk_orders],
    )


def _body(account_id: UUID, command: DeskCommand, outcomes: dict[str, int] | None = None) -> DeskCommandBody:
    principal_type, principal_id = command.principal
    return body_from(
        DeskCommandBody,
        command,
        command.scope,
        account_id=account_id,
        type=command.scope.command_type,
        principal_type=principal_type,
        principal_id=principal_id,
        outcomes=outcomes,
        closing_intent_id=None if command.closing is None else command.closing.intent_id,
    )
