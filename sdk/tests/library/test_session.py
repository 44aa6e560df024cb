"""Retries, unknown outcomes and waiting, without a network and without a clock."""

import json
from typing import Any

import pytest

from openbell import Conflict, Invalid, NotFinal, NotFound, OutcomeUnknown, RateLimited, Unavailable, Unreachable
from openbell.client import session as module
from openbell.client.session import Session
from openbell.connection import connect
from openbell.models import Action
from openbell.replies import NoReply, Reply
from openbell.requests import Request

COMMAND = Request("POST", "/v1/accounts/a/intents", headers={"idempotency-key": "k-1"})
QUESTION = Request("GET", "/v1/accounts/a/intents/i")
NEVER_SENT = NoReply("refused", sent=False)
REPLY_LOST = NoReply("cut", sent=True)
AWAY = Reply(503, {}, json.dumps({"code": "unavailable", "detail": "away"}).encode())


class Clock:
    """Time that passes only during pauses, and a session that gets scripted answers."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.sent: list[Request] = []

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(seconds)

    def session(self, *answers: Reply | NoReply) -> Session:
        """A session whose requests get these answers one by one, and then the last one again and again."""
        remaining = list(answers)

        def send(request: Request) -> Reply | NoReply:
            self.sent.append(request)
            return remaining.pop(0) if len(remaining) > 1 else remaining[0]

        session = Session(connect("k", None, None, None, 10.0))
        session._send = send  # type: ignore[method-assign]
        return session


def refusal(status: int, code: str, **headers: str) -> Reply:
    return Reply(status, headers, json.dumps({"code": code, "detail": "no"}).encode())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "monotonic", clock)
    monkeypatch.setattr(module, "sleep", clock.pause)
    return clock


@pytest.fixture
def accepted(record: dict[str, Any]) -> Reply:
    return Reply(202, {}, json.dumps(record).encode())


@pytest.mark.parametrize(
    "first",
    [
        NEVER_SENT,
        REPLY_LOST,
        AWAY,
        refusal(500, "internal_error"),
        refusal(409, "concurrent_change"),
        refusal(429, "rate_limited"),
    ],
)
def test_a_submit_is_tried_again_with_the_same_key(clock: Clock, accepted: Reply, first: Reply | NoReply) -> None:
    clock.session(first, accepted).submit(COMMAND, Action)
    assert clock.sent == [COMMAND, COMMAND]
    assert len(clock.pauses) == 1


@pytest.mark.parametrize("last", [REPLY_LOST, AWAY])
def test_a_submit_without_an_answer_after_three_retries_is_unknown(clock: Clock, last: Reply | NoReply) -> None:
    with pytest.raises(OutcomeUnknown) as caught:
        clock.session(last).submit(COMMAND, Action)
    assert len(clock.sent) == 4
    assert len(clock.pauses) == 3
    assert caught.value.idempotency_key == "k-1"
    assert "idempotency_key='k-1'" in caught.value.remedy


def test_a_submit_that_never_left_is_unreachable_and_says_so(clock: Clock) -> None:
    with pytest.raises(Unreachable, match="was not sent"):
        clock.session(NEVER_SENT).submit(COMMAND, Action)
    assert len(clock.sent) == 4


def test_a_command_refused_as_overloaded_was_certainly_not_recorded(clock: Clock) -> None:
    overloaded = refusal(503, "overloaded")
    with pytest.raises(Unavailable):
        clock.session(overloaded).submit(COMMAND, Action)
    with pytest.raises(Unavailable):
        clock.session(NEVER_SENT, overloaded).submit(COMMAND, Action)
    with pytest.raises(OutcomeUnknown):
        clock.session(REPLY_LOST, overloaded).submit(COMMAND, Action)


def test_one_lost_reply_keeps_the_outcome_unknown_when_later_attempts_cannot_connect(clock: Clock) -> None:
    with pytest.raises(OutcomeUnknown):
        clock.session(REPLY_LOST, NEVER_SENT).submit(COMMAND, Action)


@pytest.mark.parametrize(
    "later",
    [
        refusal(401, "unauthenticated"),
        refusal(409, "account_disabled"),
        refusal(422, "controls_refused"),
        refusal(429, "rate_limited"),
    ],
)
def test_a_refusal_of_the_retry_does_not_settle_what_became_of_the_first(clock: Clock, later: Reply) -> None:
    with pytest.raises(OutcomeUnknown):
        clock.session(REPLY_LOST, later).submit(COMMAND, Action)


def test_a_refusal_that_depends_on_the_command_alone_settles_the_first_too(clock: Clock) -> None:
    with pytest.raises(Invalid):
        clock.session(REPLY_LOST, refusal(422, "invalid_command")).submit(COMMAND, Action)


def test_a_refusal_is_not_tried_again(clock: Clock) -> None:
    with pytest.raises(Conflict):
        clock.session(refusal(409, "order_terminal")).submit(COMMAND, Action)
    assert len(clock.sent) == 1


def test_a_success_that_cannot_be_read_is_unknown(clock: Clock) -> None:
    with pytest.raises(OutcomeUnknown):
        clock.session(Reply(202, {}, b'{"id": "cut o')).submit(COMMAND, Action)


def test_retry_after_is_honoured_up_to_a_bound(clock: Clock, accepted: Reply) -> None:
    clock.session(refusal(429, "rate_limited", **{"retry-after": "3"}), accepted).submit(COMMAND, Action)
    assert clock.pauses == [3.0]
    with pytest.raises(RateLimited):
        clock.session(refusal(429, "rate_limited", **{"retry-after": "60"})).submit(COMMAND, Action)
    assert clock.pauses == [3.0]


def test_pauses_grow(clock: Clock) -> None:
    with pytest.raises(Unreachable):
        clock.session(NEVER_SENT).fetch(QUESTION, Action)
    assert [0.1, 0.2, 0.4] <= clock.pauses <= [0.2, 0.4, 0.8]


def test_a_read_that_stays_away_is_unavailable(clock: Clock) -> None:
    with pytest.raises(Unavailable):
        clock.session(AWAY).fetch(QUESTION, Action)
    assert len(clock.sent) == 4


def final(record: dict[str, Any]) -> Reply:
    ended = record | {"execution": record["execution"] | {"status": "FILLED"}}
    return Reply(200, {}, json.dumps(ended).encode())


def test_waiting_ends_with_the_execution_and_outlives_an_outage(
    clock: Clock, accepted: Reply, record: dict[str, Any]
) -> None:
    action = clock.session(accepted, AWAY, REPLY_LOST, final(record)).await_final(QUESTION, 30)
    assert action.execution is not None
    assert action.execution.status == "FILLED"
    assert clock.now < 1


def test_waiting_ends_at_the_deadline_with_what_was_seen(clock: Clock, accepted: Reply) -> None:
    with pytest.raises(NotFinal, match="still PARTIALLY_FILLED after 30 seconds") as caught:
        clock.session(accepted).await_final(QUESTION, 30)
    assert clock.now == pytest.approx(30)
    assert caught.value.action.intent_id
    assert all(request.timeout is not None and 1 <= request.timeout <= 30 for request in clock.sent)


def test_waiting_for_nothing_known_says_why(clock: Clock) -> None:
    with pytest.raises(Unreachable):
        clock.session(NEVER_SENT).await_final(QUESTION, 1)
    with pytest.raises(NotFound):
        clock.session(refusal(404, "not_found")).await_final(QUESTION, 1)
