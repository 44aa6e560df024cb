"""When each account is compared with its broker next: soon where something is missing, else again and again."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from openbell_server.application.ports.execution import BrokerAccount
from openbell_server.application.reconcile_account import Pass
from openbell_server.domain.broker_orders import OrderReport
from openbell_server.domain.identifiers import AccountId

PASS_SECONDS: Final = 60.0
DEEP_SECONDS: Final = 3600.0
# With nothing open and nothing that happens, an account is compared each minute of an hour, then each hour of a day.
WATCH_SECONDS: Final = 3600.0
LATE_SECONDS: Final = 86400.0
# What is missing is asked for after one second, two, four, eight; what keeps no door shut, up to once a minute.
SOON_SECONDS: Final = 1.0
UNTOLD_SECONDS_MAX: Final = 8.0
# How often an account is asked for that the feed is silent about.
POLL_SECONDS: Final = 5.0
HEARD_MAX: Final = 1_000


@dataclass(slots=True)
class Plan:
    """An account's next comparison."""

    account: BrokerAccount
    due_at: float
    deep_at: float
    touched_at: float
    began_at: float = float("-inf")
    # Passes in a row that were not complete.
    misses: int = 0
    # Reports to be looked at, by the broker's ids.
    heard: dict[str, OrderReport] = field(default_factory=dict)


@dataclass(slots=True)
class PlanPasses:
    """Accounts with something open or touched; one that is neither leaves the plan with its next complete pass."""

    _plans: dict[AccountId, Plan] = field(default_factory=dict)

    def want(self, account: BrokerAccount, due_at: float, reports: list[OrderReport] | None = None) -> None:
        """Compare the account by then, and look at these reports; of too many, a later list tells again."""
        plan = self._plans.get(account.account_id)
        if plan is None:
            plan = self._plans[account.account_id] = Plan(account, due_at, due_at, touched_at=due_at)
        plan.due_at = min(plan.due_at, due_at)
        for report in reports or ():
            if len(plan.heard) < HEARD_MAX:
                plan.heard[report.broker_order_id] = report

    def planned(self, account_id: AccountId) -> BrokerAccount | None:
        """The account, if it is in the plan: what is known of it there never changes."""
        plan = self._plans.get(account_id)
        return plan.account if plan else None

    def keep(self, account: BrokerAccount, now: float) -> None:
        """Something of the account is open, or happened: compare it within a minute, each at a moment of its own."""
        if account.account_id not in self._plans:
            self.want(account, now + _spread(account))
        else:
            plan = self._plans[account.account_id]
            plan.touched_at, plan.due_at = max(plan.touched_at, now), min(plan.due_at, now + PASS_SECONDS)

    def renew(self, account: BrokerAccount, now: float) -> Plan:
        """What happened while nobody listened is looked for far back, within a minute."""
        self.keep(account, now)
        plan = self._plans[account.account_id]
        plan.deep_at = plan.due_at = min(plan.due_at, now + _spread(account))
        return plan

    def due(self, now: float, limit: int, passing: Collection[AccountId] = ()) -> list[Plan]:
        """The most urgent of those whose time has come and that are not being compared."""
        ready = [p for p in self._plans.values() if p.due_at <= now and p.account.account_id not in passing]
        return sorted(ready, key=lambda plan: plan.due_at)[:limit]

    def take(self, plan: Plan, now: float) -> list[OrderReport]:
        """The reports that a pass looks at; until it ends the next one stands a minute off."""
        heard, plan.heard = [*plan.heard.values()], {}
        plan.due_at = plan.began_at = now
        plan.due_at += PASS_SECONDS
        return heard

    def failed(self, plan: Plan, heard: list[OrderReport], now: float) -> None:
        """The broker did not tell: ask again."""
        self._again(plan, heard, now, UNTOLD_SECONDS_MAX)

    def ended(self, plan: Plan, result: Pass, now: float, *, deep: bool) -> None:
        """The pass told what it could; with nothing open an account is compared ever more rarely, then no more."""
        if deep:
            plan.deep_at = now + DEEP_SECONDS
        if not result.is_complete:
            self._again(plan, [*result.left], now, PASS_SECONDS)
            return
        plan.misses = 0
        if result.is_open or plan.heard or plan.touched_at + WATCH_SECONDS > now:
            return
        if deep and self.is_last(plan, now):
            self._plans.pop(plan.account.account_id, None)
        else:
            plan.due_at = max(plan.due_at, plan.deep_at)

    def is_last(self, plan: Plan, now: float) -> bool:
        """Whether an account with nothing open is left alone after this pass."""
        return plan.touched_at + LATE_SECONDS <= now

    def forget(self, held: frozenset[int]) -> list[AccountId]:
        """Leave accounts of other slots to those who hold them; which these are."""
        others = [account_id for account_id, plan in self._plans.items() if plan.account.slot not in held]
        for account_id in others:
            del self._plans[account_id]
        return others

    def hurry(self, account_ids: Collection[AccountId], now: float, spacing: float = 0.0) -> None:
        """Compare these accounts now, or so many seconds after the last time."""
        for account_id in account_ids:
            plan = self._plans.get(account_id)
            if plan is not None:
                plan.due_at = min(plan.due_at, max(now, plan.began_at + spacing))

    def soon(self, account: BrokerAccount, now: float) -> None:
        """Compare the account now, or a second after the last time; later where the broker did not tell then."""
        self.keep(account, now)
        spacing = _pause(self._plans[account.account_id], UNTOLD_SECONDS_MAX)
        self.hurry([account.account_id], now, spacing)

    def _again(self, plan: Plan, reports: list[OrderReport], now: float, seconds_max: float) -> None:
        self.want(plan.account, now + _pause(plan, seconds_max), reports)
        plan.misses = min(plan.misses + 1, 10)


def _pause(plan: Plan, seconds_max: float) -> float:
    """How long an account is left alone that its broker told nothing of."""
    return min(SOON_SECONDS * 2.0**plan.misses, seconds_max)


def _spread(account: BrokerAccount) -> float:
    return account.account_id.int % 1000 / 1000 * PASS_SECONDS
