"""The route of orders at the broker that were not submitted through this platform."""

from uuid import UUID

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import UNSET, Struct, UnsetType

from openbell_server.application.intents.read_external_orders import ReadExternalOrders
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.external_orders import ExternalStatus
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, TimeInForce
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.query_parameters import page_of
from openbell_server.transport.rest.wire_types import Moment, PageOf, body_from


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
    # Rounded to 10 decimals if 18 are not enough; absent if unknown.
    average_price: str | UnsetType = UNSET


class ExternalOrderPageBody(PageOf[ExternalOrderBody], frozen=True):
    """A page of external orders."""


def external_order_route(enter: Enter, read: ReadExternalOrders) -> HTTPRouteHandler:
    @get("/v1/accounts/{account_id:uuid}/external-orders")
    async def list_external_orders(request: AnyRequest, account_id: FromPath[UUID]) -> ExternalOrderPageBody:
        caller = await enter(request, Operation.READ_INTENTS)
        page = await read(caller, AccountId(account_id), *page_of(request))
        data = [body_from(ExternalOrderBody, order) for order in page.rows]
        return ExternalOrderPageBody(data, page.next_cursor, page.last_cursor)

    return list_external_orders
