"""When each account is reconciled next: soon if reports are missing, otherwise at regular intervals."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from openbell_server.application.execution.reconcile_account import ReconciliationResult
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.broker_reports import OrderReport

PASS_SECONDS: Final = 60.0
DEEP_SECONDS: Final = 3600.0
# Without open orders and events, an account is reconciled every minute for an hour, then every hour for a day.
WATCH_SECONDS: Final = 3600.0
LATE_SECONDS: Final = 86400.0
# The retry delay doubles from 1 s to 8 s if the broker did not answer, and to 60 s if only reports are missing.
SOON_SECONDS: Final = 1.0
NO_ANSWER_SECONDS_MAX: Final = 8.0
# How often an account with a silent feed is reconciled.
POLL_SECONDS: Final = 5.0
REPORTS_MAX: Final = 1_000


@dataclass(slots=True)
class Plan:
    """The next reconciliation of an account."""

    account: BrokerAccount
    due_at: float
    deep_at: float
    touched_at: float
    began_at: float = float("-inf")
    # Incomplete reconciliations in a row.
    misses: int = 0
    # Reports to process, by broker order id.
    reports: dict[str, OrderReport] = field(default_factory=dict)


@dataclass(slots=True)
class ReconciliationSchedule:
    """Accounts with open orders or recent events; any other leaves the schedule after a complete reconciliation."""

    _plans: dict[AccountId, Plan] = field(default_factory=dict)

    def want(self, account: BrokerAccount, due_at: float, reports: list[OrderReport] | None = None) -> None:
        """Reconcile the account by then and process these reports; reports over REPORTS_MAX appear in a later list."""
        plan = self._plans.get(account.account_id)
        if plan is None:
            plan = self._plans[account.account_id] = Plan(account, due_at, due_at, touched_at=due_at)
        plan.due_at = min(plan.due_at, due_at)
        for report in reports or ():
            if len(plan.reports) < REPORTS_MAX:
                plan.reports[report.broker_order_id] = report

    def planned(self, account_id: AccountId) -> BrokerAccount | None:
        """The account if it is scheduled; its fields never change."""
        plan = self._plans.get(account_id)
        return plan.account if plan else None

    def keep(self, account: BrokerAccount, now: float) -> None:
        """Reconcile the account within a minute; accounts are spread over the minute."""
        if account.account_id not in self._plans:
            self.want(account, now + _spread(account))
        else:
            plan = self._plans[account.account_id]
            plan.touched_at, plan.due_at = max(plan.touched_at, now), min(plan.due_at, now + PASS_SECONDS)

    def renew(self, account: BrokerAccount, now: float) -> Plan:
        """Schedule a deep reconciliation within a minute, because the feed was not read for a time."""
        self.keep(account, now)
        plan = self._plans[account.account_id]
        plan.deep_at = plan.due_at = min(plan.due_at, now + _spread(account))
        return plan

    def due(self, now: float, limit: int, passing: Collection[AccountId] = ()) -> list[Plan]:
        """The most urgent accounts that are due and not being reconciled."""
        ready = [p for p in self._plans.values() if p.due_at <= now and p.account.account_id not in passing]
        return sorted(ready, key=lambda plan: plan.due_at)[:limit]

    def take(self, plan: Plan, now: float) -> list[OrderReport]:
        """Take the reports to process, and schedule the next reconciliation in a minute."""
        reports, plan.reports = [*plan.reports.values()], {}
        plan.due_at = plan.began_at = now
        plan.due_at += PASS_SECONDS
        return reports

    def failed(self, plan: Plan, reports: list[OrderReport], now: float) -> None:
        """The broker did not answer: retry."""
        self._again(plan, reports, now, NO_ANSWER_SECONDS_MAX)

    def ended(self, plan: Plan, result: ReconciliationResult, now: float, *, deep: bool) -> None:
        """The broker answered; without open orders an account is reconciled less and less often, then removed."""
        if deep:
            plan.deep_at = now + DEEP_SECONDS
        if not result.is_complete:
            self._again(plan, [*result.left], now, PASS_SECONDS)
            return
        plan.misses = 0
        if result.is_open or plan.reports or plan.touched_at + WATCH_SECONDS > now:
            return
        if deep and self.is_last(plan, now):
            self._plans.pop(plan.account.account_id, None)
        else:
            plan.due_at = max(plan.due_at, plan.deep_at)

    def is_last(self, plan: Plan, now: float) -> bool:
        """Whether an account without open orders is removed after this reconciliation."""
        return plan.touched_at + LATE_SECONDS <= now

    def forget(self, held: frozenset[int]) -> list[AccountId]:
        """Remove and return accounts of slots that we do not hold."""
        others = [account_id for account_id, plan in self._plans.items() if plan.account.slot not in held]
        for account_id in others:
            del self._plans[account_id]
        return others

    def hurry(self, account_ids: Collection[AccountId], now: float, spacing: float = 0.0) -> None:
        """Reconcile these accounts now, but at least `spacing` seconds after the last time."""
        for account_id in account_ids:
            plan = self._plans.get(account_id)
            if plan is not None:
                plan.due_at = min(plan.due_at, max(now, plan.began_at + spacing))

    def soon(self, account: BrokerAccount, now: float) -> None:
        """Reconcile the account now, but at least 1 s after the last time, longer if the broker did not answer."""
        self.keep(account, now)
        spacing = _pause(self._plans[account.account_id], NO_ANSWER_SECONDS_MAX)
        self.hurry([account.account_id], now, spacing)

    def _again(self, plan: Plan, reports: list[OrderReport], now: float, seconds_max: float) -> None:
        self.want(plan.account, now + _pause(plan, seconds_max), reports)
        plan.misses = min(plan.misses + 1, 10)


def _pause(plan: Plan, seconds_max: float) -> float:
    return min(SOON_SECONDS * 2.0**plan.misses, seconds_max)


def _spread(account: BrokerAccount) -> float:
    return account.account_id.int % 1000 / 1000 * PASS_SECONDS
