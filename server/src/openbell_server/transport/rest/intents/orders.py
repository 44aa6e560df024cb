"""The routes of current orders, executions and changes of positions."""

from uuid import UUID

from litestar import Router, get
from litestar.params import FromPath
from msgspec import UNSET, Struct, UnsetType

from openbell_server.application.intents.ports import ListedExecution, ListedOrder
from openbell_server.application.intents.read_orders import ReadOrders
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.identifiers import AccountId, client_order_id
from openbell_server.domain.orders.order_aggregate import Certainty, Pending, status
from openbell_server.domain.orders.order_terms import OrderSide
from openbell_server.domain.orders.positions import PositionCause
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.intents.bodies import reason_body
from openbell_server.transport.rest.query_parameters import (
    execution_filter_of,
    order_filter_of,
    order_of,
    page_of,
    sole,
)
from openbell_server.transport.rest.wire_types import Moment, OrderTermsBody, PageOf, ReasonBody, body_from


class OrderStateBody(OrderTermsBody, frozen=True, kw_only=True):
    """What the list of orders and the event broker_order have in common."""

    intent_id: UUID
    client_order_id: str
    status: str
    pending: Pending
    certainty: Certainty
    filled_quantity: str
    leaves_quantity: str
    client_reference_id: str | UnsetType = UNSET
    average_price: str | UnsetType = UNSET
    reason: ReasonBody | UnsetType = UNSET


class OrderBody(OrderStateBody, frozen=True, kw_only=True):
    """The order of an intent, with the fields of the event broker_order."""

    account_id: UUID
    created_at: Moment
    updated_at: Moment
    broker_order_ids: list[str]


class OrderPageBody(PageOf[OrderBody], frozen=True):
    """A page of orders."""


class ExecutionRowBody(Struct, frozen=True):
    """An execution with its current values; a busted one has the quantity 0."""

    account_id: UUID
    execution_id: str
    intent_id: UUID
    symbol: str
    order_side: OrderSide
    kind: str
    quantity: str
    price: str
    executed_at: Moment
    recorded_at: Moment
    # In the quote currency, negative if it is a rebate; absent if the broker does not report it.
    fee: str | UnsetType = UNSET
    # Only if the broker busted or corrected it: the first reported values, and the time of the change.
    reported_quantity: str | UnsetType = UNSET
    reported_price: str | UnsetType = UNSET
    changed_at: Moment | UnsetType = UNSET


class ExecutionPageBody(PageOf[ExecutionRowBody], frozen=True):
    """A page of executions."""


class PositionChangeBody(Struct, frozen=True):
    """A change of a position, and the position after it; negative if it is short."""

    symbol: str
    cause: PositionCause
    change: str
    quantity: str
    changed_at: Moment
    # Of an execution.
    intent_id: UUID | UnsetType = UNSET
    # Of an external order: quantity multiplied by price of its fills, negative for sells; absent if unknown.
    value: str | UnsetType = UNSET
    # Of OPENING and UNEXPLAINED: the broker's, of the whole position after the change; absent if unknown.
    average_price: str | UnsetType = UNSET


class PositionChangePageBody(PageOf[PositionChangeBody], frozen=True):
    """A page of changes of positions."""


def order_routes(enter: Enter, read: ReadOrders) -> Router:
    @get("/v1/orders")
    async def list_orders(request: AnyRequest) -> OrderPageBody:
        caller = await enter(request, Operation.READ_INTENTS)
        page = await read.page(caller, *page_of(request), order_filter_of(request))
        return OrderPageBody([_order(order) for order in page.rows], page.next_cursor, page.last_cursor)

    @get("/v1/executions")
    async def list_executions(request: AnyRequest) -> ExecutionPageBody:
        caller = await enter(request, Operation.READ_INTENTS)
        page = await read.executions(caller, *page_of(request), execution_filter_of(request))
        return ExecutionPageBody([_execution(each) for each in page.executions], page.next_cursor)

    @get("/v1/accounts/{account_id:uuid}/positions/changes")
    async def list_position_changes(request: AnyRequest, account_id: FromPath[UUID]) -> PositionChangePageBody:
        caller = await enter(request, Operation.READ_INTENTS)
        page = await read.position_changes(
            caller, AccountId(account_id), *page_of(request), sole(request, "symbol"), order_of(request)
        )
        rows = [body_from(PositionChangeBody, each) for each in page.rows]
        return PositionChangePageBody(rows, page.next_cursor, page.last_cursor)

    return Router("/", route_handlers=[list_orders, list_executions, list_position_changes])


def _order(listed: ListedOrder) -> OrderBody:
    order = listed.order
    return body_from(
        OrderBody,
        listed,
        client_order_id=client_order_id(listed.order_action_id),
        quantity=order.quantity,
        time_in_force=order.terms.time_in_force,
        status=status(order),
        pending=order.pending,
        certainty=order.certainty,
        filled_quantity=order.filled_quantity,
        leaves_quantity=order.leaves_quantity,
        broker_order_ids=list(order.broker_order_ids),
        limit_price=order.terms.limit_price,
        stop_price=order.terms.stop_price,
        average_price=order.average_price,
        reason=reason_body(listed.reason),
    )


def _execution(listed: ListedExecution) -> ExecutionRowBody:
    now, price = listed.quantity, listed.price
    return body_from(
        ExecutionRowBody,
        listed,
        kind="NORMAL" if now is None else "CORRECTION" if now else "BUST",
        quantity=listed.reported_quantity if now is None else now,
        price=listed.reported_price if price is None else price,
        reported_quantity=None if now is None else listed.reported_quantity,
        reported_price=None if now is None else listed.reported_price,
    )
