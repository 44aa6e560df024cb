"""What the use cases of money read and write."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Protocol

from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.controls.kinds.losses import LossLimit
from openbell_server.domain.controls.rules import Rule
from openbell_server.domain.identifiers import AccountId, OrganizationId, Symbol
from openbell_server.domain.money.balances import StoredBalances
from openbell_server.domain.money.losses import LossMark
from openbell_server.domain.money.profit import Book, Entry, Figures, Trade
from openbell_server.domain.orders.intents import plain


@dataclass(frozen=True, slots=True)
class TradeNews:
    """What happened to the account's positions after an event, in the order of its log."""

    # The event after which this is, and the last one that it includes.
    after: int
    to: int
    # By symbol; None instead of a trade: the symbol's book must be made again from all its trades.
    trades: Sequence[tuple[Symbol, Trade | None]]
    # Whether there is more than was read.
    is_more: bool
    # Whether events in between were pruned, so that every book must be made again.
    is_gap: bool


@dataclass(frozen=True, slots=True)
class NewFigures:
    """Figures that are not saved yet: added to those of the symbol, or, if its book was made again, instead of them."""

    by_period: Mapping[datetime, Figures]
    is_remade: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What one unit of a symbol is worth; None where that is not known yet."""

    # None: the broker did not describe the instrument yet.
    currency: str | None
    multiplier: Decimal
    price: Decimal | None
    as_of: datetime | None


class MarkStore(Protocol):
    async def read_marks(self, account: TradingAccount, symbols: Collection[Symbol]) -> dict[Symbol, Mark]:
        """The newest price and the instrument of each symbol; the read makes executors refresh them from now on."""


class FigureStore(Protocol):
    async def figures_of_days(
        self,
        organization_id: OrganizationId,
        account_id: AccountId,
        days: Sequence[datetime],
        symbol: Symbol | None,
        left_out: Collection[Symbol],
    ) -> dict[tuple[int, Symbol], Figures]:
        """The saved figures by day and symbol; day n is from days[n] to days[n + 1]."""


class BookStore(Protocol):
    async def trade_news(
        self, organization_id: OrganizationId, account_id: AccountId, after: int | None, limit: int
    ) -> TradeNews:
        """Events after a number, or after those that are saved."""

    async def read_books(
        self, organization_id: OrganizationId, account_id: AccountId, symbols: Collection[Symbol]
    ) -> dict[Symbol, Book]:
        """The saved books of these symbols and of every open position."""

    async def traded_symbols(self, organization_id: OrganizationId, account_id: AccountId) -> list[Symbol]:
        """Every symbol in which the account had a position."""

    def entries(
        self, organization_id: OrganizationId, account_id: AccountId, symbol: Symbol
    ) -> AsyncIterator[Sequence[Entry]]:
        """Everything that changed the position, as it counts now, in the order in which it was made."""

    async def save_books(
        self,
        organization_id: OrganizationId,
        account_id: AccountId,
        read: TradeNews,
        books: Mapping[Symbol, Book],
        figures: Mapping[Symbol, NewFigures],
    ) -> bool:
        """Save books as of the event read.to; False, and nothing is saved, unless read.after is what was saved last."""


class BooksBehind(Protocol):
    async def accounts_behind_across_organizations(
        self, slots: Collection[int], events: int, seconds: float, limit: int
    ) -> list[tuple[OrganizationId, AccountId]]:
        """Accounts of these slots whose books lack so many events, or any if the books are so old."""


class BalanceStore(Protocol):
    async def read_balances(self, organization_id: OrganizationId, account_id: AccountId) -> StoredBalances | None:
        """The balances stored last; None: never. The account's executor keeps them fresh for the next minutes."""


@dataclass(frozen=True, slots=True)
class AnnouncedBreach:
    """A limit whose breach is an event, once for each day and version of the rule."""

    rule: Rule
    loss_limit: LossLimit

    @property
    def key(self) -> str:
        return f"{self.rule.scope} {self.rule.version}"

    @property
    def limit(self) -> Decimal:
        return self.loss_limit.value

    def lost(self, mark: LossMark) -> Decimal:
        return self.loss_limit.lost(mark)

    def body(self, mark: LossMark) -> dict[str, object]:
        """The event's, as JSON."""
        return {
            "code": self.rule.code,
            "scope": self.rule.scope,
            "mode": self.rule.mode,
            "control_version": self.rule.version,
            "currency": self.loss_limit.currency,
            "limit": plain(self.limit),
            "loss": plain(self.lost(mark)),
            "measured_from": self.loss_limit.measured_from,
            "on_breach": self.loss_limit.on_breach,
            "day": mark.day.isoformat(),
            "as_of": mark.as_of.isoformat(),
        }


class LossStore(Protocol):
    async def accounts_with_loss_limits_across_organizations(
        self, slots: Collection[int]
    ) -> list[tuple[OrganizationId, AccountId, datetime]]:
        """Accounts of these slots with a limit on losses, each with the database's time."""

    async def keep_loss(
        self,
        account: TradingAccount,
        place: tuple[str, str],
        day: date,
        profit: Decimal,
        at: datetime,
        breaches: Sequence[AnnouncedBreach],
    ) -> bool:
        """Store a measurement of the profit in a currency and time zone, unless a later one is stored.

        Whether it exceeded a limit for the first time on this day: the account's log has that.
        """
