"""When accounts are compared: soon where something is missing, else within a minute, each at a moment of its own."""

from itertools import pairwise
from uuid import UUID

import pytest

from openbell_server.application.execution.reconcile_account import ReconciliationResult
from openbell_server.application.execution.reconciliation_schedule import (
    DEEP_SECONDS,
    LATE_SECONDS,
    PASS_SECONDS,
    WATCH_SECONDS,
    Plan,
    ReconciliationSchedule,
)
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.domain.orders.broker_reports import ReportStatus
from support.builders.tenant import a_report

COMPLETE, QUIET = ReconciliationResult(True, (), is_open=True), ReconciliationResult(True, (), is_open=False)


def account(number: int, slot: int = 0) -> BrokerAccount:
    return BrokerAccount(OrganizationId(UUID(int=1)), AccountId(UUID(int=number)), "paper", slot)


@pytest.fixture
def plan() -> ReconciliationSchedule:
    return ReconciliationSchedule()


def due(plan: ReconciliationSchedule, now: float) -> list[int]:
    return [each.account.account_id.int for each in plan.due(now, 1000)]


def passed(
    plan: ReconciliationSchedule, now: float, result: ReconciliationResult = COMPLETE, *, deep: bool = True
) -> Plan:
    (each,) = plan.due(now, 1)
    plan.take(each, now)
    plan.ended(each, result, now, deep=deep)
    return each


def test_accounts_are_spread_over_a_minute(plan: ReconciliationSchedule) -> None:
    for number in range(1000):
        plan.keep(account(number), 0.0)
    at_once = [len(due(plan, second)) for second in range(61)]
    assert (at_once[0], at_once[60]) == (1, 1000)
    assert max(later - earlier for earlier, later in pairwise(at_once)) <= 17


def test_an_account_with_something_open_is_compared_again_each_minute_and_far_back_each_hour(
    plan: ReconciliationSchedule,
) -> None:
    plan.want(account(1), 0.0)
    each = passed(plan, 0.0)
    assert (each.due_at, each.deep_at) == (PASS_SECONDS, DEEP_SECONDS)
    assert due(plan, PASS_SECONDS - 1) == []
    assert due(plan, PASS_SECONDS) == [1]


def test_what_is_missing_is_asked_for_soon_and_then_more_rarely(plan: ReconciliationSchedule) -> None:
    left = a_report(ReportStatus.WORKING)
    plan.want(account(1), 0.0)
    now, waits = 0.0, []
    for _ in range(8):
        each = passed(plan, now, ReconciliationResult(False, (left,), is_open=True))
        assert [*each.reports.values()] == [left]
        waits.append(each.due_at - now)
        now = each.due_at
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_broker_that_does_not_tell_is_asked_every_few_seconds(plan: ReconciliationSchedule) -> None:
    plan.want(account(1), 0.0)
    now, waits = 0.0, []
    for _ in range(6):
        (each,) = plan.due(now, 1)
        plan.failed(each, plan.take(each, now), now)
        waits.append(each.due_at - now)
        now = each.due_at
    assert waits == [1, 2, 4, 8, 8, 8]


def test_an_account_that_nothing_happens_to_is_compared_rarely_and_after_a_day_no_more(
    plan: ReconciliationSchedule,
) -> None:
    plan.want(account(1), 0.0)
    passed(plan, 0.0, QUIET)
    assert due(plan, PASS_SECONDS) == [1]
    now = WATCH_SECONDS
    passed(plan, now, QUIET)
    assert (due(plan, now + DEEP_SECONDS - 1), due(plan, now + DEEP_SECONDS)) == ([], [1])
    passed(plan, LATE_SECONDS, QUIET)
    assert due(plan, 10 * LATE_SECONDS) == []


def test_an_account_that_something_happens_to_is_compared_every_minute_again(plan: ReconciliationSchedule) -> None:
    plan.want(account(1), 0.0)
    passed(plan, WATCH_SECONDS, QUIET)
    plan.keep(account(1), WATCH_SECONDS + 1)
    assert due(plan, WATCH_SECONDS + 1 + PASS_SECONDS) == [1]


def test_accounts_of_slots_that_are_another_s_are_forgotten(plan: ReconciliationSchedule) -> None:
    plan.want(account(1, slot=3), 0.0)
    plan.want(account(2, slot=4), 0.0)
    assert plan.forget(frozenset({4})) == [account(1).account_id]
    assert due(plan, 0.0) == [2]


def test_what_the_feed_is_silent_about_is_asked_for_every_few_seconds(plan: ReconciliationSchedule) -> None:
    plan.want(account(1), 0.0)
    passed(plan, 0.0)
    plan.hurry({account(1).account_id}, 1.0, 5.0)
    assert (due(plan, 4.9), due(plan, 5.0)) == ([], [1])


def test_an_account_that_is_wanted_soon_is_compared_at_once_and_then_ever_later_while_the_broker_tells_nothing(
    plan: ReconciliationSchedule,
) -> None:
    plan.soon(account(7), 0.0)
    assert due(plan, 0.0) == [7]
    (each,) = plan.due(0.0, 1)
    plan.take(each, 0.0)
    plan.soon(account(7), 0.0)
    assert due(plan, 0.9) == []
    plan.failed(each, [], 1.0)
    plan.failed(each, [], 1.0)
    plan.soon(account(7), 1.0)
    assert due(plan, 3.9) == [7]
    plan.take(each, 4.0)
    plan.soon(account(7), 4.0)
    assert (due(plan, 7.9), due(plan, 8.0)) == ([], [7])
