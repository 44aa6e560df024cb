"""The record of an account that back-tests replay."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.controls.backtest import Entry
from openbell_server.domain.controls.backtest_state import RecordedState


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of an account's record, by the numbers of its events and refusals."""

    begins_at: datetime
    events: range
    refusals: range
    # Commands in it, refused ones included.
    commands: int
    # The time since which the commands are within the limit of one back-test; None if all of them are.
    fits_since: datetime | None
    # Whether the organization has no other account whose commands count for shared rules.
    is_whole: bool


class HistoryStore(Protocol):
    async def now(self, account: TradingAccount) -> datetime: ...

    async def forgotten_until(self, account: TradingAccount) -> datetime | None:
        """The time of the newest event that was deleted; None if none was."""

    async def stretch(self, account: TradingAccount, since: datetime, until: datetime, commands_max: int) -> Stretch:
        """What was recorded from since (included) to until (excluded)."""

    async def state_before(self, account: TradingAccount, stretch: Stretch) -> RecordedState:
        """Orders and positions before the stretch."""

    def entries(self, account: TradingAccount, stretch: Stretch) -> AsyncIterator[Sequence[Entry]]:
        """Pages of entries in the order they were recorded."""
