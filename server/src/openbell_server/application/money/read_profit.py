"""Read what the trades of an account brought, by day and symbol."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Final

from openbell_server.application.access.find_account import find_account
from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.intents.read_intents import WRONG_SYMBOL
from openbell_server.application.money.ports import FigureStore, Mark, MarkStore
from openbell_server.application.money.read_books import ReadBooks
from openbell_server.application.paging import ListOrder, Page, bounded, page_of, start_of
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.errors import InvalidParameter
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.money.profit import CostMethod, Figures
from openbell_server.domain.orders.order_terms import EXACT
from openbell_server.domain.time_zones import zone_of

DAYS_DEFAULT: Final = 30
DAYS_MAX: Final = 400


class GroupBy(StrEnum):
    """What one row of profit is about."""

    SYMBOL_AND_DAY = "SYMBOL_AND_DAY"
    DAY = "DAY"
    SYMBOL = "SYMBOL"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfitFilter:
    symbol: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    timezone: str | None = None
    method: CostMethod = CostMethod.AVERAGE
    group_by: GroupBy = GroupBy.SYMBOL_AND_DAY
    order: ListOrder = ListOrder.OLDEST_FIRST


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfitRow:
    """What trades brought in money of one currency, before fees; None where the row is not about one day or symbol."""

    day: date | None
    symbol: Symbol | None
    # None: the broker did not describe the instrument yet.
    currency: str | None
    realized: Decimal = Decimal(0)
    fees: Decimal = Decimal(0)
    bought_value: Decimal = Decimal(0)
    sold_value: Decimal = Decimal(0)
    trades: int = 0
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class _Days:
    """Days of a zone: each from its start to the next one's, the last to the last of the starts."""

    starts: Sequence[datetime]
    dates: Sequence[date]

    def place_of(self, moment: datetime) -> int | None:
        place = bisect_right(self.starts, moment) - 1
        return place if 0 <= place < len(self.dates) else None


@dataclass(frozen=True, slots=True)
class ReadProfit:
    accounts: AccountStore
    books: ReadBooks
    figures: FigureStore
    marks: MarkStore
    brokers: Mapping[str, BrokerDefinition]
    cursor_key: bytes

    async def __call__(
        self, caller: Principal, account_id: AccountId, cursor: str | None, limit: int | None, wanted: ProfitFilter
    ) -> Page[ProfitRow]:
        account = await find_account(self.accounts, caller, Operation.READ_INTENTS, account_id)
        symbol = None if wanted.symbol is None else self.brokers[account.broker].canonical_symbol(wanted.symbol)
        if wanted.symbol is not None and symbol is None:
            raise InvalidParameter("symbol", WRONG_SYMBOL)
        days, rows = _days(account, wanted), bounded(limit)
        scope = f"profit {account.id} {symbol} {days.dates} {wanted}"
        skipped = start_of(self.cursor_key, scope, cursor)
        figures = await self._figures(account, days, symbol)
        marks = await self.marks.read_marks(account, sorted({name for _, name in figures}))
        found = _rows(figures, days, marks, wanted)[skipped : skipped + rows + 1]
        return page_of(self.cursor_key, scope, cursor, rows, list(enumerate(found, skipped + 1)))

    async def _figures(
        self, account: TradingAccount, days: _Days, symbol: Symbol | None
    ) -> dict[tuple[int, Symbol], Figures]:
        """The figures of each day and symbol: the saved ones and those of the trades since."""
        news = (await self.books(account.organization_id, account.id)).news
        remade = [name for name, each in news.items() if each.is_remade]
        found = await self.figures.figures_of_days(account.organization_id, account.id, days.starts, symbol, remade)
        for name, each in news.items():
            for period, figures in each.by_period.items():
                place = days.place_of(period)
                if place is not None and symbol in (None, name):
                    found.setdefault((place, name), Figures()).add(figures)
        return found


def _days(account: TradingAccount, wanted: ProfitFilter) -> _Days:
    zone = zone_of(wanted.timezone or account.timezone)
    if zone is None:
        raise InvalidParameter("timezone", "must be UTC or the IANA name of a zone, such as America/New_York")
    until = wanted.until or account.now
    since = wanted.since or until - timedelta(days=DAYS_DEFAULT)
    first, last = since.astimezone(zone).date(), until.astimezone(zone).date()
    count = (last - first).days + 1
    if not 1 <= count <= DAYS_MAX:
        raise InvalidParameter("since", f"must be before until, by at most {DAYS_MAX} days", "out_of_range")
    dates = [first + timedelta(days=number) for number in range(count)]
    starts = [datetime.combine(each, time(), zone).astimezone(UTC) for each in (*dates, last + timedelta(days=1))]
    return _Days(starts, dates)


def _rows(
    figures: Mapping[tuple[int, Symbol], Figures], days: _Days, marks: Mapping[Symbol, Mark], wanted: ProfitFilter
) -> list[ProfitRow]:
    """In the order of days, then of symbols."""
    found: dict[tuple[int, str, str], ProfitRow] = {}
    for (place, symbol), each in figures.items():
        by_day, by_symbol = wanted.group_by is not GroupBy.SYMBOL, wanted.group_by is not GroupBy.DAY
        currency = marks[symbol].currency
        key = (place if by_day else 0, symbol if by_symbol else "", currency or "")
        before = found.get(key) or ProfitRow(
            day=days.dates[place] if by_day else None, symbol=symbol if by_symbol else None, currency=currency
        )
        found[key] = _with(before, each, marks[symbol].multiplier, wanted.method)
    return [found[key] for key in sorted(found, reverse=wanted.order is ListOrder.NEWEST_FIRST)]


def _with(row: ProfitRow, figures: Figures, multiplier: Decimal, method: CostMethod) -> ProfitRow:
    def added(total: Decimal, number: Decimal) -> Decimal:
        return EXACT.add(total, EXACT.multiply(number, multiplier))

    return replace(
        row,
        realized=added(row.realized, figures.realized(method)),
        fees=EXACT.add(row.fees, figures.fees),
        bought_value=added(row.bought_value, figures.bought_value),
        sold_value=added(row.sold_value, figures.sold_value),
        trades=row.trades + figures.trades,
        is_complete=row.is_complete and not (figures.unknown or figures.without_fee),
    )
