"""Lists an account's orders as Alpaca does: the newest first, open ones by default, at most 500."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from openbell_server.application.intents.ports import ListedOrder, ListedStatus, OrderFilter
from openbell_server.application.intents.read_orders import ReadOrders
from openbell_server.application.paging import LIMIT_MAX, ListOrder
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.errors import InvalidParameter
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.order_terms import OrderSide
from openbell_server.transport.rest.alpaca.commands import SIDES
from openbell_server.transport.rest.entry import AnyRequest
from openbell_server.transport.rest.query_parameters import choice_of, moment_of, sole, whole_number

_ROWS_DEFAULT, _ROWS_MAX = 50, 500
# Pages that one request may read: more would keep others waiting.
_PAGES_MAX: Final = 20
_STATUSES: Final = {"open": ListedStatus.WORKING, "closed": ListedStatus.CLOSED, "all": ListedStatus.ALL}
_DIRECTIONS: Final = {"desc": ListOrder.NEWEST_FIRST, "asc": ListOrder.OLDEST_FIRST}
# `nested` asks for legs inside their order; there are no legs.
_KNOWN: Final = ("status", "limit", "after", "until", "direction", "nested", "symbols", "side")


@dataclass(frozen=True, slots=True)
class Wanted:
    status: ListedStatus
    rows: int
    after: datetime | None
    until: datetime | None
    order: ListOrder
    symbols: frozenset[str]
    side: OrderSide | None

    def is_beyond(self, listed: ListedOrder) -> bool:
        """Whether no later order of the list can match."""
        if self.order is ListOrder.NEWEST_FIRST:
            return self.after is not None and listed.created_at <= self.after
        return self.until is not None and listed.created_at >= self.until

    def matches(self, listed: ListedOrder) -> bool:
        return (
            (not self.symbols or listed.symbol in self.symbols)
            and (self.after is None or listed.created_at > self.after)
            and (self.until is None or listed.created_at < self.until)
        )


def wanted_of(request: AnyRequest) -> Wanted:
    for name in request.query_params:
        if name not in _KNOWN:
            raise InvalidParameter(name[:64], f"is not supported here; supported are {', '.join(_KNOWN)}", "unknown")
    text = sole(request, "limit")
    rows = _ROWS_DEFAULT if text is None else whole_number(text)
    if rows is None or not 1 <= rows <= _ROWS_MAX:
        raise InvalidParameter("limit", f"must be from 1 to {_ROWS_MAX}", "out_of_range")
    return Wanted(
        status=_STATUSES[choice_of(request, "status", _STATUSES) or "open"],
        rows=rows,
        after=moment_of(request, "after"),
        until=moment_of(request, "until"),
        order=_DIRECTIONS[choice_of(request, "direction", _DIRECTIONS) or "desc"],
        symbols=frozenset(filter(None, (sole(request, "symbols") or "").upper().split(","))),
        side=SIDES.get(choice_of(request, "side", SIDES) or ""),
    )


async def listed_orders(
    read: ReadOrders, caller: Principal, account_id: AccountId, wanted: Wanted
) -> list[ListedOrder]:
    found: list[ListedOrder] = []
    async for listed in _each(read, caller, account_id, wanted):
        if wanted.is_beyond(listed):
            break
        if wanted.matches(listed):
            found.append(listed)
            if len(found) == wanted.rows:
                break
    return found


async def _each(
    read: ReadOrders, caller: Principal, account_id: AccountId, wanted: Wanted
) -> AsyncIterator[ListedOrder]:
    chosen = OrderFilter(
        account_id=account_id,
        status=wanted.status,
        symbol=next(iter(wanted.symbols)) if len(wanted.symbols) == 1 else None,
        order_side=wanted.side,
        order=wanted.order,
    )
    cursor = None
    for _ in range(_PAGES_MAX):
        page = await read.page(caller, cursor, min(wanted.rows, LIMIT_MAX), chosen)
        for listed in page.rows:
            yield listed
        if page.next_cursor is None:
            return
        cursor = page.next_cursor
    raise InvalidParameter(
        "after", "must be sent, or one symbol: too many orders would have to be looked at", "missing"
    )
