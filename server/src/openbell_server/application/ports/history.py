"""What back-tests need to read of an account's record."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from openbell_server.domain.accounts import TradingAccount
from openbell_server.domain.backtest_controls import Entry
from openbell_server.domain.recorded_state import RecordedState


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of an account's record, by the numbers of its events and of its refusals."""

    begins_at: datetime
    events: range
    refusals: range
    # How many commands it has, those that were refused among them.
    commands: int
    # The moment since which there are no more commands than may be replayed at once; None where all of them may.
    fits_since: datetime | None
    # Whether the organization has no other account, whose commands would count for shared rules.
    is_whole: bool


class HistoryStore(Protocol):
    """The record of an account, as it was written under the account's lock."""

    async def now(self, account: TradingAccount) -> datetime:
        """The database's clock."""

    async def forgotten_until(self, account: TradingAccount) -> datetime | None:
        """When the newest event happened that is no longer kept; None where all are."""

    async def stretch(self, account: TradingAccount, since: datetime, until: datetime, commands_max: int) -> Stretch:
        """What was recorded at or after a moment and before another."""

    async def state_before(self, account: TradingAccount, stretch: Stretch) -> RecordedState:
        """How orders and positions stood before a stretch."""

    def entries(self, account: TradingAccount, stretch: Stretch) -> AsyncIterator[Sequence[Entry]]:
        """What is recorded there in the order it happened, page by page."""
