"""The routes of Alpaca's trading API."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID, uuid4

from litestar import Response, Router, delete, get, patch, post
from litestar.params import FromPath

from openbell_server.application.access.find_account import find_account
from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.intents.ports import ActionFilter, ListedOrder, ListedStatus, OrderFilter
from openbell_server.application.intents.read_intents import ReadIntents
from openbell_server.application.intents.read_orders import ReadOrders
from openbell_server.application.intents.submit_intent import SubmitIntent, Submitted, UnknownAccount
from openbell_server.application.money.read_balances import ReadBalances
from openbell_server.application.money.read_positions import ReadPositions
from openbell_server.application.paging import ListOrder
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId, IntentId
from openbell_server.domain.markets.calendars import MarketCalendars
from openbell_server.domain.money.profit import CostMethod
from openbell_server.domain.orders.intents import CancelIntent, CommandRequest
from openbell_server.transport.rest.alpaca.bodies import (
    account_body,
    asset_body,
    clock_body,
    created_of,
    order_body,
    position_body,
    shown_of,
)
from openbell_server.transport.rest.alpaca.commands import client_order_id_of, create_of, fields_of, replace_of
from openbell_server.transport.rest.alpaca.entry import PREFIX, account_id_of
from openbell_server.transport.rest.alpaca.list_orders import Wanted, listed_orders, wanted_of
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.query_parameters import sole
from openbell_server.transport.rest.strict_json import decode_json, json_body_of

CALENDAR: Final = "XNYS"
# How many orders one request cancels.
CANCELS_MAX: Final = 500
Json = dict[str, Any]
Decode = Callable[[BrokerDefinition], Awaitable[CommandRequest]]


@dataclass(frozen=True, slots=True)
class AlpacaUse:
    """The use cases behind the routes."""

    enter: Enter
    accounts: AccountStore
    submit: SubmitIntent
    intents: ReadIntents
    orders: ReadOrders
    positions: ReadPositions
    balances: ReadBalances
    calendars: MarketCalendars

    async def command(self, request: AnyRequest, *, is_cancel: bool) -> tuple[Principal, AccountId]:
        account_id = account_id_of(request)

        async def cancels() -> bool:
            return is_cancel

        return await self.enter.with_command(request, account_id, cancels), account_id

    async def reader(self, request: AnyRequest) -> tuple[Principal, AccountId]:
        return await self.enter(request, Operation.READ_INTENTS), account_id_of(request)

    async def submitted(
        self, caller: Principal, account_id: AccountId, decode: Decode, key: str | None = None
    ) -> Submitted:
        try:
            return await self.submit(caller, account_id, decode, lambda: key)
        except UnknownAccount:
            await self.enter.limit.unknown_account(caller)
            raise

    async def find(self, caller: Principal, account_id: AccountId, intent_id: IntentId) -> ListedOrder:
        page = await self.orders.page(caller, None, 1, OrderFilter(account_id=account_id, intent_id=intent_id))
        if not page.rows:
            raise Problem("not_found", "order not found")
        return page.rows[0]

    async def cancel(self, caller: Principal, account_id: AccountId, intent_id: IntentId) -> Submitted:
        async def cancel(_: BrokerDefinition) -> CommandRequest:
            return CommandRequest(command=CancelIntent(ref_intent_id=intent_id))

        return await self.submitted(caller, account_id, cancel)


def alpaca_routes(use: AlpacaUse) -> Router:
    return Router(
        f"{PREFIX}/v2",
        route_handlers=[*_command_routes(use), *_order_routes(use), *_account_routes(use)],
    )


def _receipt(submitted: Submitted) -> dict[str, str]:
    headers = {"openbell-receipt-id": str(submitted.recorded.action.receipt_id)}
    if submitted.replayed:
        headers["idempotency-replayed"] = "true"
    return headers


def _command_routes(use: AlpacaUse) -> list[Any]:
    @post("/orders", status_code=200)
    async def submit_order(request: AnyRequest) -> Response[Json]:
        caller, account_id = await use.command(request, is_cancel=False)
        fields = fields_of(decode_json(await json_body_of(request)))
        key = client_order_id_of(fields)

        async def create(broker: BrokerDefinition) -> CommandRequest:
            return CommandRequest(command=create_of(fields, key or str(uuid4()), broker))

        submitted = await use.submitted(caller, account_id, create, key)
        body = order_body(created_of(submitted.recorded, submitted.execution))
        return Response(body, headers=_receipt(submitted))

    @patch("/orders/{order_id:uuid}")
    async def replace_order(request: AnyRequest, order_id: FromPath[UUID]) -> Response[Json]:
        caller, account_id = await use.command(request, is_cancel=False)
        fields = fields_of(decode_json(await json_body_of(request)))
        key = client_order_id_of(fields)

        async def replace(_: BrokerDefinition) -> CommandRequest:
            listed = await use.find(caller, account_id, IntentId(order_id))
            return CommandRequest(command=replace_of(fields, listed, key))

        submitted = await use.submitted(caller, account_id, replace, key)
        body = order_body(shown_of(await use.find(caller, account_id, IntentId(order_id))))
        return Response(body, headers=_receipt(submitted))

    @delete("/orders/{order_id:uuid}", status_code=204)
    async def cancel_order(request: AnyRequest, order_id: FromPath[UUID]) -> Response[None]:
        caller, account_id = await use.command(request, is_cancel=True)
        return Response(None, headers=_receipt(await use.cancel(caller, account_id, IntentId(order_id))))

    @delete("/orders", status_code=207)
    async def cancel_orders(request: AnyRequest) -> list[Json]:
        caller, account_id = await use.command(request, is_cancel=True)
        every = Wanted(ListedStatus.WORKING, CANCELS_MAX, None, None, ListOrder.OLDEST_FIRST, frozenset(), None)
        canceled: list[Json] = []
        for listed in await listed_orders(use.orders, caller, account_id, every):
            try:
                await use.enter.limit.command(caller, account_id, cancels=True)
                await use.cancel(caller, account_id, listed.intent_id)
            except Problem as problem:
                body = {"message": problem.detail, "openbell": {"code": problem.code}}
                canceled.append({"id": str(listed.intent_id), "status": 500, "body": body})
            else:
                canceled.append({"id": str(listed.intent_id), "status": 200})
        return canceled

    return [submit_order, replace_order, cancel_order, cancel_orders]


def _order_routes(use: AlpacaUse) -> list[Any]:
    @get("/orders")
    async def list_orders(request: AnyRequest) -> list[Json]:
        caller, account_id = await use.reader(request)
        wanted = wanted_of(request)
        return [order_body(shown_of(each)) for each in await listed_orders(use.orders, caller, account_id, wanted)]

    @get("/orders/{order_id:uuid}")
    async def show_order(request: AnyRequest, order_id: FromPath[UUID]) -> Json:
        caller, account_id = await use.reader(request)
        return order_body(shown_of(await use.find(caller, account_id, IntentId(order_id))))

    @get("/orders:by_client_order_id")
    async def show_order_by_client_order_id(request: AnyRequest) -> Json:
        caller, account_id = await use.reader(request)
        name = client_order_id_of({"client_order_id": sole(request, "client_order_id")})
        if name is None:
            raise Problem("not_found", "order not found: client_order_id is missing")
        page = await use.intents.page(caller, account_id, None, 1, ActionFilter(client_reference_id=name))
        if not page.rows:
            raise Problem("not_found", "order not found")
        return order_body(shown_of(await use.find(caller, account_id, page.rows[0].action.intent_id)))

    return [list_orders, show_order, show_order_by_client_order_id]


def _account_routes(use: AlpacaUse) -> list[Any]:
    @get("/account")
    async def show_account(request: AnyRequest) -> Json:
        return account_body(*await use.balances(*await use.reader(request)))

    @get("/positions")
    async def list_positions(request: AnyRequest) -> list[Json]:
        held = await use.positions(*await use.reader(request), CostMethod.AVERAGE)
        return [position_body(each) for each in held.positions if each.quantity]

    @get("/positions/{symbol:str}")
    async def show_position(request: AnyRequest, symbol: FromPath[str]) -> Json:
        held = await use.positions(*await use.reader(request), CostMethod.AVERAGE)
        for each in held.positions:
            if each.quantity and each.symbol == symbol.upper():
                return position_body(each)
        raise Problem("not_found", "position does not exist")

    @get("/clock")
    async def show_clock(request: AnyRequest) -> Json:
        caller, account_id = await use.reader(request)
        account = await find_account(use.accounts, caller, Operation.READ_INTENTS, account_id)
        market = use.calendars.find(CALENDAR)
        assert market is not None
        return clock_body(market, account.now)

    @get("/assets/{symbol:str}")
    async def show_asset(request: AnyRequest, symbol: FromPath[str]) -> Json:
        caller, account_id = await use.reader(request)
        account = await find_account(use.accounts, caller, Operation.READ_INTENTS, account_id)
        found = use.submit.brokers[account.broker].canonical_symbol(symbol)
        if found is None:
            raise Problem("not_found", f"asset not found for {symbol[:64]}")
        return asset_body(found)

    return [show_account, list_positions, show_position, show_clock, show_asset]
