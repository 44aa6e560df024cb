"""The route of orders at the broker that were not submitted through this platform."""

from uuid import UUID

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import UNSET, Struct, UnsetType

from openbell_server.application.intents.read_external_orders import ReadExternalOrders
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.external_orders import ExternalOrder, ExternalStatus
from openbell_server.domain.orders.intents import plain
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, TimeInForce
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.query_parameters import page_of
from openbell_server.transport.rest.wire_types import Moment


class ExternalOrderBody(Struct, frozen=True):
    """An order at the broker that was not submitted through this platform."""

    broker_order_id: str
    symbol: str
    order_side: OrderSide
    order_type: OrderType
    status: ExternalStatus
    filled_quantity: str
    accepted_at: Moment
    client_order_id: str | UnsetType = UNSET
    quantity: str | UnsetType = UNSET
    limit_price: str | UnsetType = UNSET
    stop_price: str | UnsetType = UNSET
    time_in_force: TimeInForce | UnsetType = UNSET


class ExternalOrderPageBody(Struct, frozen=True):
    """A page of external orders."""

    data: list[ExternalOrderBody]
    next_cursor: str | None
    last_cursor: str | None


def external_order_route(enter: Enter, read: ReadExternalOrders) -> HTTPRouteHandler:
    @get("/v1/accounts/{account_id:uuid}/external-orders")
    async def list_external_orders(request: AnyRequest, account_id: FromPath[UUID]) -> ExternalOrderPageBody:
        caller = await enter(request, Operation.READ_INTENTS)
        page = await read(caller, AccountId(account_id), *page_of(request))
        return ExternalOrderPageBody([_body(order) for order in page.rows], page.next_cursor, page.last_cursor)

    return list_external_orders


def _body(order: ExternalOrder) -> ExternalOrderBody:
    return ExternalOrderBody(
        broker_order_id=order.broker_order_id,
        symbol=order.symbol,
        order_side=order.order_side,
        order_type=order.order_type,
        status=order.status,
        filled_quantity=format(order.filled_quantity, "f"),
        accepted_at=order.accepted_at,
        client_order_id=order.client_order_id or UNSET,
        quantity=plain(order.quantity) or UNSET,
        limit_price=plain(order.limit_price) or UNSET,
        stop_price=plain(order.stop_price) or UNSET,
        time_in_force=order.time_in_force or UNSET,
    )
