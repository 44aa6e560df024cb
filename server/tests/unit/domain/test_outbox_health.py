"""The verdict on a queue: the worst that is so, with a sentence that says what to do."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from openbell_server.domain.events.outbox import Queue
from openbell_server.domain.events.outbox_health import QueueStanding, QueueVerdict, judge, worst

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
IDLE = QueueStanding(
    queue=Queue.ACCOUNTS,
    pending=0,
    processing=0,
    failed=0,
    unacknowledged=0,
    completed=1_000_000,
    oldest_pending_at=None,
    oldest_due_at=None,
    oldest_claim_at=None,
    read_at=NOON,
)


def ago(seconds: float) -> datetime:
    return NOON - timedelta(seconds=seconds)


def due(seconds: float) -> QueueStanding:
    return replace(IDLE, pending=1, oldest_pending_at=ago(seconds), oldest_due_at=ago(seconds))


def claimed(seconds: float) -> QueueStanding:
    return replace(IDLE, processing=1, oldest_claim_at=ago(seconds))


@pytest.mark.parametrize(
    ("standing", "verdict"),
    [
        (IDLE, QueueVerdict.HEALTHY),
        (due(0), QueueVerdict.HEALTHY),
        (due(5), QueueVerdict.HEALTHY),
        (due(5.1), QueueVerdict.SLOW),
        (due(60), QueueVerdict.SLOW),
        (due(60.1), QueueVerdict.STUCK),
        (claimed(10), QueueVerdict.HEALTHY),
        (claimed(10.1), QueueVerdict.STUCK),
        (replace(IDLE, failed=3), QueueVerdict.HEALTHY),
        (replace(IDLE, failed=3, unacknowledged=1), QueueVerdict.FAILING),
        (replace(due(6), failed=1, unacknowledged=1), QueueVerdict.FAILING),
        (replace(due(61), failed=1, unacknowledged=1), QueueVerdict.STUCK),
        # One that waits for its next try is old, and not due.
        (replace(IDLE, pending=1, oldest_pending_at=ago(3600)), QueueVerdict.HEALTHY),
    ],
)
def test_a_queue_is_judged_by_what_waits_too_long_and_what_was_given_up(
    standing: QueueStanding, verdict: QueueVerdict
) -> None:
    assert judge(standing)[0] is verdict


@pytest.mark.parametrize("queue", list(Queue))
def test_every_verdict_is_explained_by_one_sentence_with_the_figures_and_the_command(queue: Queue) -> None:
    for standing, words in (
        (IDLE, "nothing to do"),
        (due(7), "has waited 7 s"),
        (due(90), f"outbox list --queue {queue} --status pending`"),
        (claimed(42), "A claim is 42 s old"),
        (replace(IDLE, failed=1, unacknowledged=1), "1 row was given up"),
        (
            replace(IDLE, failed=2, unacknowledged=2),
            "2 rows were given up after the last attempt: run `openbell-server",
        ),
    ):
        explanation = judge(replace(standing, queue=queue))[1]
        assert words in explanation
        assert explanation.endswith(".")
        assert explanation.count(". ") == 0
        assert "{" not in explanation


def test_a_time_just_after_the_reading_is_no_negative_age() -> None:
    standing = replace(claimed(-0.001), oldest_due_at=ago(-0.001))
    assert (standing.lag_seconds, standing.claim_seconds) == (0, 0)


def test_the_verdict_on_all_is_the_worst_of_each() -> None:
    order = [QueueVerdict.HEALTHY, QueueVerdict.SLOW, QueueVerdict.FAILING, QueueVerdict.STUCK]
    assert worst([]) is QueueVerdict.HEALTHY
    for one, other in product(order, order):
        assert worst([one, other]) is order[max(order.index(one), order.index(other))]
