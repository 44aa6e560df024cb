"""Measure what accounts with a limit on losses have lost today: the limit itself refuses, this tells it the loss."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from typing import Final

from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.controls.ports.rules import MarketStore, RuleBookStore
from openbell_server.application.money.ports import AnnouncedBreach, BookStore, LossStore, Mark, MarkStore
from openbell_server.application.money.read_books import ReadBooks
from openbell_server.application.ports.hints import Hints
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.controls.kinds.losses import LossLimit
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.domain.money.profit import Book, CostMethod
from openbell_server.domain.orders.order_terms import EXACT
from openbell_server.domain.time_zones import zone_of

LOSS_SECONDS: Final = 2.0
_NOTHING: Final = Decimal(0)


@dataclass(slots=True)
class MeasureLosses:
    store: LossStore
    accounts: AccountStore
    rules: RuleBookStore
    books: BookStore
    marks: MarkStore
    rates: MarketStore
    hints: Hints
    # Failed measurements by account and error type; the process logs and clears them.
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)

    async def sweep(self, slots: Collection[int]) -> None:
        """Measure each account once; errors are counted, so that one does not stop the others."""
        for organization_id, account_id, now in await self.store.accounts_with_loss_limits_across_organizations(slots):
            try:
                await self._measure(organization_id, account_id, now)
            except Exception as error:  # noqa: BLE001 - it is counted, and the next sweep measures again
                self.failures[str(account_id), repr(error)] += 1

    async def _measure(self, organization_id: OrganizationId, account_id: AccountId, now: datetime) -> None:
        account = await self.accounts.find_account(organization_id, account_id)
        if account is None:
            return
        limits = [(rule.parameters, rule) for rule in (await self.rules.rule_book(account)).rules]
        in_force = [(limit, rule) for limit, rule in limits if isinstance(limit, LossLimit) and rule.is_in_force(now)]
        if not in_force:
            return
        profits = await self._profits(account)
        has_news = False
        for place, same in groupby(sorted(in_force, key=lambda each: each[0].place), key=lambda each: each[0].place):
            currency, name = place
            zone, profit = zone_of(name), await self._in_currency(account, profits, currency)
            if zone is not None and profit is not None:
                breaches = [AnnouncedBreach(rule, limit) for limit, rule in same]
                day = now.astimezone(zone).date()
                has_news |= await self.store.keep_loss(account, place, day, profit, now, breaches)
        if has_news:
            self.hints.events_were_written([account_id])

    async def _profits(self, account: TradingAccount) -> dict[str, Decimal] | None:
        """The profit of all trades by currency, fees included; None while the value of a position is not known."""
        symbols = await self.books.traded_symbols(account.organization_id, account.id)
        current = await ReadBooks(self.books)(account.organization_id, account.id, symbols)
        marks = await self.marks.read_marks(account, list(current.books))
        profits: dict[str, Decimal] = {}
        for symbol, book in current.books.items():
            mark = marks[symbol]
            profit = _profit(book, mark)
            if profit is None or mark.currency is None:
                return None
            profits[mark.currency] = EXACT.add(profits.get(mark.currency, _NOTHING), profit)
        return profits

    async def _in_currency(
        self, account: TradingAccount, profits: dict[str, Decimal] | None, currency: str
    ) -> Decimal | None:
        """The sum in a currency; None without a rate."""
        if profits is None:
            return None
        total = profits.get(currency, _NOTHING)
        for other in profits.keys() - {currency}:
            rate = await self.rates.find_rate(account.organization_id, other, currency)
            if rate is None:
                return None
            total = EXACT.add(total, EXACT.multiply(profits[other], rate.rate))
        return total


def _profit(book: Book, mark: Mark) -> Decimal | None:
    """What trades brought and what is held is worth beyond its cost, less fees."""
    brought = EXACT.subtract(EXACT.multiply(book.total.realized(CostMethod.AVERAGE), mark.multiplier), book.total.fees)
    if not book.quantity:
        return brought
    if mark.price is None or book.cost is None:
        return None
    beyond = EXACT.subtract(EXACT.multiply(mark.price, book.quantity), book.cost)
    return EXACT.add(brought, EXACT.multiply(beyond, mark.multiplier))
