"""The route by which users cancel orders; keys submit CANCEL."""

from typing import Annotated
from uuid import UUID

from litestar import post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import UNSET, Meta, Struct, UnsetType

from openbell_server.application.access.find_account import find_account
from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.intents.submit_intent import SubmitIntent
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId, IntentId
from openbell_server.domain.orders.intents import CancelIntent, CommandRequest
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.strict_json import read_body
from openbell_server.transport.rest.wire_types import PageOf

CANCELS_MAX = 100


class CancelOrdersBody(Struct, forbid_unknown_fields=True, frozen=True):
    """The orders to cancel, by the ids of their intents."""

    intent_ids: Annotated[list[UUID], Meta(min_length=1, max_length=CANCELS_MAX)]


class CancelResultBody(Struct, frozen=True):
    """The recorded CANCEL, or the code and the reason why none was recorded."""

    intent_id: UUID
    action_id: UUID | UnsetType = UNSET
    code: str | UnsetType = UNSET
    detail: str | UnsetType = UNSET


class CancelResultsBody(PageOf[CancelResultBody], frozen=True):
    """One row for each intent, in the order of the request."""


def cancel_orders_route(enter: Enter, accounts: AccountStore, submit: SubmitIntent) -> HTTPRouteHandler:
    @post("/v1/accounts/{account_id:uuid}/orders/cancel", status_code=200)
    async def cancel_orders(request: AnyRequest, account_id: FromPath[UUID]) -> CancelResultsBody:
        caller = await enter(request, Operation.CANCEL_ORDERS)
        account = await find_account(accounts, caller, Operation.CANCEL_ORDERS, AccountId(account_id))

        async def cancel(intent_id: UUID) -> CancelResultBody:
            async def decode(_: BrokerDefinition) -> CommandRequest:
                return CommandRequest(command=CancelIntent(ref_intent_id=IntentId(intent_id)))

            try:
                await enter.limit.command(caller, account.id, cancels=True)
                submitted = await submit(caller, account.id, decode, lambda: None)
            except Problem as problem:
                return CancelResultBody(intent_id, code=problem.code, detail=problem.detail)
            return CancelResultBody(intent_id, action_id=submitted.recorded.action.id)

        body = await read_body(request, CancelOrdersBody)
        return CancelResultsBody([await cancel(intent_id) for intent_id in body.intent_ids])

    return cancel_orders
