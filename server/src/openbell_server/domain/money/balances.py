"""The balances of an account as its broker reports them."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

# Older balances are no basis for a limit.
AGE_MAX: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Balances:
    """Amounts in one currency; None where the broker does not report an amount, negative where it is owed."""

    currency: str
    cash: Decimal | None = None
    # Cash and the value of all positions.
    equity: Decimal | None = None
    buying_power: Decimal | None = None
    initial_margin: Decimal | None = None
    maintenance_margin: Decimal | None = None
    # The balances are not older than this.
    as_of: datetime

    def is_news_after(self, before: "Balances | None") -> bool:
        """Whether the account's log tells of them: equity and buying power move with every price, cash does not."""
        return before is None or (before.currency, before.cash) != (self.currency, self.cash)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBalances:
    balances: Balances
    # When they were stored, on the database's clock.
    read_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeBuyingPower:
    """The buying power of an account, and what orders may cost that the broker's report does not include."""

    currency: str
    buying_power: Decimal
    reserved: Decimal
    # When the broker reported it.
    as_of: datetime

    def is_current(self, now: datetime) -> bool:
        return now - self.as_of <= AGE_MAX
