"""Watchdog of a broker's feed: a feed that does not report an accepted order counts as silent, despite heartbeats."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.broker_reports import OrderReport

NAMES_MAX: Final = 10_000
# A silent feed is restarted at most this often.
RESTART_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Echo:
    account_id: AccountId
    names: frozenset[str]
    due_at: float


@dataclass(slots=True)
class FeedWatchdog:
    """The reports that the feed still owes, and the accounts it did not report."""

    echo_seconds: float
    clock: Callable[[], float]
    # Accounts that the feed did not report in time, until its next report about them.
    mute: set[AccountId] = field(default_factory=set)
    # Since the start: how often an account became silent, and how often the feed was restarted for that.
    silences: int = 0
    restarts: int = 0
    _expected: list[_Echo] = field(default_factory=list)
    # The latest order names in reports, each with the count of reports at that time.
    _reported: dict[str, int] = field(default_factory=dict)
    _count: int = 0
    _restarted_at: float = float("-inf")

    def mark(self) -> int:
        """The count of reports before a command is sent: the feed may report the order before the broker answers."""
        return self._count

    def expect(self, mark: int, account_id: AccountId, names: Collection[str]) -> None:
        """The broker accepted a command: expect a report with one of these names, unless one came since the mark."""
        if not any(self._reported.get(name, -1) >= mark for name in names):
            self._expected.append(_Echo(account_id, frozenset(names), self.clock() + self.echo_seconds))

    def notify(self, account_id: AccountId, report: OrderReport) -> None:
        names = {name for name in (report.client_order_id, report.broker_order_id) if name is not None}
        for name in names:
            self._reported.pop(name, None)
            self._reported[name] = self._count
        while len(self._reported) > NAMES_MAX:
            del self._reported[next(iter(self._reported))]
        self._count += 1
        self.mute.discard(account_id)
        if self._expected:
            self._expected = [echo for echo in self._expected if names.isdisjoint(echo.names)]

    def begin(self, account_id: AccountId | None = None) -> None:
        """The feed, or an account's own, was restarted: drop its expectations, because a reconciliation follows."""
        self._expected = [echo for echo in self._expected if account_id not in {None, echo.account_id}]

    def overdue(self) -> set[AccountId]:
        """Accounts that became silent since the last call."""
        now = self.clock()
        late = {echo.account_id for echo in self._expected if echo.due_at <= now}
        if late:
            self._expected = [echo for echo in self._expected if echo.due_at > now]
        fallen = late - self.mute
        self.mute |= late
        self.silences += len(fallen)
        return fallen

    def may_restart(self) -> bool:
        """Whether the feed may be restarted now; if so, counts a restart."""
        if not self.mute or self.clock() < self._restarted_at + RESTART_SECONDS:
            return False
        self._restarted_at = self.clock()
        self.restarts += 1
        return True
