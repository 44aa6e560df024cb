"""The canary of a broker's feed: after an answer it must tell of the order too, or it is mute, whatever it beats."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from openbell_server.domain.broker_orders import OrderReport
from openbell_server.domain.identifiers import AccountId

HEARD_MAX: Final = 10_000
# A feed that stays mute is begun anew this often and no more.
RESTART_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Echo:
    account_id: AccountId
    names: frozenset[str]
    due_at: float


@dataclass(slots=True)
class WatchEchoes:
    """What the feed still has to tell, and of which accounts it did not."""

    echo_seconds: float
    clock: Callable[[], float]
    # Accounts that the feed was silent about, until it speaks of them again.
    mute: set[AccountId] = field(default_factory=set)
    # Since the start: how often an account's feed fell silent, and how often the feed was begun anew for it.
    silences: int = 0
    restarts: int = 0
    _expected: list[_Echo] = field(default_factory=list)
    # The last names that were heard, each with its place among all.
    _heard: dict[str, int] = field(default_factory=dict)
    _count: int = 0
    _restarted_at: float = float("-inf")

    def mark(self) -> int:
        """How much was heard before a command is written: its echo may come before its answer."""
        return self._count

    def expect(self, mark: int, account_id: AccountId, names: Collection[str]) -> None:
        """The broker took a command: of one of these names the feed must speak soon, or has since the mark."""
        if not any(self._heard.get(name, -1) >= mark for name in names):
            self._expected.append(_Echo(account_id, frozenset(names), self.clock() + self.echo_seconds))

    def hear(self, account_id: AccountId, report: OrderReport) -> None:
        """The feed spoke of an order."""
        names = {name for name in (report.client_order_id, report.broker_order_id) if name is not None}
        for name in names:
            self._heard.pop(name, None)
            self._heard[name] = self._count
        while len(self._heard) > HEARD_MAX:
            del self._heard[next(iter(self._heard))]
        self._count += 1
        self.mute.discard(account_id)
        if self._expected:
            self._expected = [echo for echo in self._expected if names.isdisjoint(echo.names)]

    def begin(self, account_id: AccountId | None = None) -> None:
        """The feed, or an account's own, was begun anew: what it did not tell is learned by asking."""
        self._expected = [echo for echo in self._expected if account_id not in {None, echo.account_id}]

    def overdue(self) -> set[AccountId]:
        """Accounts that the feed has newly fallen silent about."""
        now = self.clock()
        late = {echo.account_id for echo in self._expected if echo.due_at <= now}
        if late:
            self._expected = [echo for echo in self._expected if echo.due_at > now]
        fallen = late - self.mute
        self.mute |= late
        self.silences += len(fallen)
        return fallen

    def may_restart(self) -> bool:
        """Whether the feed may be begun anew now; counts it if so."""
        if not self.mute or self.clock() < self._restarted_at + RESTART_SECONDS:
            return False
        self._restarted_at = self.clock()
        self.restarts += 1
        return True
