"""The canary of a feed: an answer must be followed by a word about its order, whatever else is heard."""

from dataclasses import replace
from uuid import UUID

import pytest

from openbell_server.application.execution.feed_watchdog import NAMES_MAX, RESTART_SECONDS, FeedWatchdog
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.broker_reports import ReportStatus
from support.brokers.execution_harness import Clock
from support.builders.tenant import a_report

ACCOUNT, OTHER = AccountId(UUID(int=1)), AccountId(UUID(int=2))
REPORT = a_report(ReportStatus.WORKING, client_order_id="c1")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def echoes(clock: Clock) -> FeedWatchdog:
    return FeedWatchdog(10.0, clock)


def test_a_feed_that_does_not_tell_of_a_taken_order_in_time_is_mute(echoes: FeedWatchdog, clock: Clock) -> None:
    echoes.expect(echoes.mark(), ACCOUNT, {"c1", "b1"})
    clock.seconds = 9.9
    assert echoes.overdue() == set()
    clock.seconds = 10.0
    assert echoes.overdue() == {ACCOUNT}
    assert echoes.overdue() == set()
    assert (echoes.mute, echoes.silences) == ({ACCOUNT}, 1)


@pytest.mark.parametrize("report", [REPORT, replace(REPORT, client_order_id=None)])
def test_an_echo_by_either_id_will_do(echoes: FeedWatchdog, clock: Clock, report: object) -> None:
    echoes.expect(echoes.mark(), ACCOUNT, {"c1", "b1"})
    echoes.notify(ACCOUNT, report)  # type: ignore[arg-type]
    clock.seconds = 11.0
    assert echoes.overdue() == set()


def test_an_echo_may_come_before_the_answer(echoes: FeedWatchdog, clock: Clock) -> None:
    mark = echoes.mark()
    echoes.notify(ACCOUNT, REPORT)
    echoes.expect(mark, ACCOUNT, {"c1"})
    clock.seconds = 11.0
    assert echoes.overdue() == set()


def test_what_was_heard_before_the_command_is_no_echo_of_it(echoes: FeedWatchdog, clock: Clock) -> None:
    echoes.notify(ACCOUNT, REPORT)
    echoes.expect(echoes.mark(), ACCOUNT, {"c1"})
    clock.seconds = 11.0
    assert echoes.overdue() == {ACCOUNT}


def test_a_word_about_another_order_is_no_echo_but_ends_the_silence_of_its_account(
    echoes: FeedWatchdog, clock: Clock
) -> None:
    echoes.expect(echoes.mark(), ACCOUNT, {"c1"})
    echoes.notify(OTHER, replace(REPORT, client_order_id="c2", broker_order_id="b2"))
    clock.seconds = 11.0
    assert echoes.overdue() == {ACCOUNT}
    echoes.notify(OTHER, replace(REPORT, client_order_id="c3", broker_order_id="b3"))
    assert echoes.mute == {ACCOUNT}
    echoes.notify(ACCOUNT, replace(REPORT, client_order_id="c4", broker_order_id="b4"))
    assert echoes.mute == set()


def test_a_feed_is_begun_anew_while_it_is_mute_and_not_too_often(echoes: FeedWatchdog, clock: Clock) -> None:
    assert not echoes.may_restart()
    echoes.expect(echoes.mark(), ACCOUNT, {"c1"})
    clock.seconds = 10.0
    echoes.overdue()
    assert echoes.may_restart()
    clock.seconds += RESTART_SECONDS - 0.1
    assert not echoes.may_restart()
    clock.seconds += 0.1
    assert echoes.may_restart()
    assert echoes.restarts == 2


def test_what_a_feed_begun_anew_did_not_tell_is_not_expected_of_it(echoes: FeedWatchdog, clock: Clock) -> None:
    echoes.expect(echoes.mark(), ACCOUNT, {"c1"})
    echoes.begin()
    clock.seconds = 11.0
    assert echoes.overdue() == set()


def test_an_own_feed_begun_anew_owes_nothing_and_those_of_others_still_do(echoes: FeedWatchdog, clock: Clock) -> None:
    echoes.expect(echoes.mark(), ACCOUNT, {"c1"})
    echoes.expect(echoes.mark(), OTHER, {"c2"})
    echoes.begin(ACCOUNT)
    clock.seconds = 11.0
    assert echoes.overdue() == {OTHER}


def test_what_was_heard_is_remembered_up_to_a_bound(echoes: FeedWatchdog) -> None:
    for number in range(NAMES_MAX + 10):
        echoes.notify(ACCOUNT, replace(REPORT, client_order_id=None, broker_order_id=f"b{number}"))
    assert len(echoes._reported) == NAMES_MAX
