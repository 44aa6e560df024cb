"""The routes of positions with their cost and value, and of profit by day."""

from datetime import date
from uuid import UUID

from litestar import Router, get
from litestar.params import FromPath
from msgspec import UNSET, Struct, UnsetType

from openbell_server.application.money.read_positions import ReadPositions, ValuedPositions
from openbell_server.application.money.read_profit import GroupBy, ProfitFilter, ProfitRow, ReadProfit
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.money.profit import CostMethod
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.query_parameters import choice_of, moment_of, order_of, page_of, sole
from openbell_server.transport.rest.wire_types import Moment, PageOf, body_from


class PositionBody(Struct, frozen=True, kw_only=True):
    """The account's position in a symbol, negative if short, with its money as far as it is known."""

    symbol: str
    quantity: str
    updated_at: Moment
    # Of the instrument, and of all money of this row.
    currency: str | UnsetType = UNSET
    # What the open units cost, and one of them.
    cost: str | UnsetType = UNSET
    average_cost: str | UnsetType = UNSET
    market_price: str | UnsetType = UNSET
    market_price_at: Moment | UnsetType = UNSET
    market_value: str | UnsetType = UNSET
    # market_value less cost.
    unrealized: str | UnsetType = UNSET
    # By all trades of the symbol, before fees.
    realized: str | UnsetType = UNSET
    fees: str | UnsetType = UNSET
    # Whether realized and fees include every trade.
    profit_complete: bool


class PositionsBody(PageOf[PositionBody], frozen=True, kw_only=True):
    """All positions of the account, as of the event account_seq."""

    account_seq: int
    source: str
    complete: bool
    cost_method: CostMethod
    as_of: Moment | UnsetType = UNSET


class ProfitBody(Struct, frozen=True, kw_only=True):
    """What trades brought, before fees."""

    day: date | UnsetType = UNSET
    symbol: str | UnsetType = UNSET
    currency: str | UnsetType = UNSET
    realized: str
    fees: str
    bought_value: str
    sold_value: str
    trades: int
    # Whether realized and fees include every trade.
    profit_complete: bool


class ProfitPageBody(PageOf[ProfitBody], frozen=True):
    """A page of profit."""


def position_routes(enter: Enter, read_positions: ReadPositions, read_profit: ReadProfit) -> Router:
    @get("/v1/accounts/{account_id:uuid}/positions")
    async def list_positions(request: AnyRequest, account_id: FromPath[UUID]) -> PositionsBody:
        caller = await enter(request, Operation.READ_INTENTS)
        method = _method_of(request)
        return _positions(await read_positions(caller, AccountId(account_id), method), method)

    @get("/v1/accounts/{account_id:uuid}/profit")
    async def list_profit(request: AnyRequest, account_id: FromPath[UUID]) -> ProfitPageBody:
        caller = await enter(request, Operation.READ_INTENTS)
        wanted = ProfitFilter(
            symbol=sole(request, "symbol"),
            since=moment_of(request, "since"),
            until=moment_of(request, "until"),
            timezone=sole(request, "timezone"),
            method=_method_of(request),
            group_by=choice_of(request, "group_by", GroupBy) or GroupBy.SYMBOL_AND_DAY,
            order=order_of(request),
        )
        page = await read_profit(caller, AccountId(account_id), *page_of(request), wanted)
        return ProfitPageBody([_profit(row) for row in page.rows], page.next_cursor, page.last_cursor)

    return Router("/", route_handlers=[list_positions, list_profit])


def _method_of(request: AnyRequest) -> CostMethod:
    return choice_of(request, "cost_method", CostMethod) or CostMethod.AVERAGE


def _positions(held: ValuedPositions, method: CostMethod) -> PositionsBody:
    listed = held.listed
    return PositionsBody(
        data=[body_from(PositionBody, each, profit_complete=each.is_complete) for each in held.positions],
        account_seq=listed.event_no,
        source="EXECUTIONS" if listed.as_of is None else "BROKER",
        complete=held.is_all,
        cost_method=method,
        as_of=listed.as_of or UNSET,
    )


def _profit(row: ProfitRow) -> ProfitBody:
    return body_from(ProfitBody, row, profit_complete=row.is_complete)
