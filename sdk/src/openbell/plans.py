"""What to send, when to try again and what the answers mean: plans that a client carries out step by step.

A plan is a generator: it yields a Request or a Pause, and is sent what came of it. It does no input or output
itself, so both clients share it whole.
"""

import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import dataclass, replace
from random import SystemRandom
from typing import Final, Protocol, TypeVar

from openbell.errors import ApiError, NotFinal, OpenbellError, OutcomeUnknown, UnexpectedReply, Unreachable
from openbell.models import Action
from openbell.requests import Reply, Request, following_page, read, read_action, read_error

RETRIES: Final = 3
FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 5.0
FIRST_LOOK_PAUSE: Final = 0.1
LONGEST_LOOK_PAUSE: Final = 1.0

_RETRIED_STATUSES: Final = frozenset({429, 500, 502, 503, 504})
_RETRIED_CODES: Final = frozenset({"concurrent_change", "idempotency_in_flight"})
# Refusals that depend on the command alone: an earlier attempt with the same command was refused as well.
_SETTLING_STATUSES: Final = frozenset({400, 413, 415, 422})
_JITTER: Final = SystemRandom()

Answered = TypeVar("Answered")
Outcome = TypeVar("Outcome")
PageKind = TypeVar("PageKind", bound="Paged")


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait before the next step."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Lost:
    """There was no reply; sent says whether the request may have arrived."""

    reason: str
    sent: bool


Step = Request | Pause
Answer = Reply | Lost | None
Plan = Generator[Step, Answer, Outcome]


class CarryOut(Protocol):
    """How a client carries out a plan."""

    def __call__(self, plan: Plan[Outcome]) -> Outcome:
        """What came of it."""


class AsyncCarryOut(Protocol):
    """The same, awaited."""

    async def __call__(self, plan: Plan[Outcome]) -> Outcome:
        """What came of it."""


class Paged(Protocol):
    """A page, and where the next one begins."""

    @property
    def next_cursor(self) -> str | None:
        """None on the last one."""


def pages(carry_out: CarryOut, request: Request, kind: type[PageKind]) -> Iterator[PageKind]:
    """Page after page, from the first."""
    following: Request | None = request
    while following is not None:  # ends with the last page; a page that repeats its cursor raises
        page = carry_out(fetch(following, kind))
        yield page
        following = following_page(following, page.next_cursor)


async def async_pages(carry_out: AsyncCarryOut, request: Request, kind: type[PageKind]) -> AsyncIterator[PageKind]:
    """The same, awaited."""
    following: Request | None = request
    while following is not None:
        page = await carry_out(fetch(following, kind))
        yield page
        following = following_page(following, page.next_cursor)


def fetch(request: Request, kind: type[Answered]) -> Plan[Answered]:
    """Read something, trying again while the far side is away."""
    return read((yield from ask(request)), kind)


def fetch_once(request: Request, kind: type[Answered]) -> Plan[Answered]:
    """Ask for what would be done twice if it were asked for twice."""
    return read((yield from ask_once(request)), kind)


def ask_once(request: Request) -> Plan[Reply]:
    """What the platform answers if it does what is asked, which a second try would not, or would do again."""
    answer = yield request
    assert answer is not None
    if isinstance(answer, Lost):
        doubt = "; it may have been done: look before you ask again" if answer.sent else ""
        raise Unreachable(f"The platform cannot be reached at {answer.reason}{doubt}")
    if not answer.is_success:
        raise read_error(answer)
    return answer


def ask(request: Request) -> Plan[Reply]:
    """What the platform answers if it does what is asked, trying again while the far side is away.

    What is bound to a version is tried once: if the first try was made, the second would be refused for it.
    """
    if "if-match" in request.headers:
        return (yield from ask_once(request))
    answer, _ = yield from _exchange(request)
    if isinstance(answer, Lost):
        raise Unreachable(f"The platform cannot be reached at {answer.reason}")
    if not answer.is_success:
        raise read_error(answer)
    return answer


def submit(request: Request) -> Plan[Action]:
    """Send a command, trying again with the same key; raise OutcomeUnknown unless the outcome is known."""
    key = request.headers["idempotency-key"]
    answer, doubt = yield from _exchange(request)
    if isinstance(answer, Lost):
        if doubt:
            raise OutcomeUnknown(doubt, idempotency_key=key)
        raise Unreachable(f"The command was not sent, the platform cannot be reached at {answer.reason}")
    request_id = answer.headers.get("x-request-id")
    if answer.is_success:
        try:
            return read_action(answer)
        except UnexpectedReply as error:
            raise OutcomeUnknown(error.message, idempotency_key=key, request_id=request_id) from error
    refusal = read_error(answer)
    if doubt and not _settles(refusal):
        raise OutcomeUnknown(doubt, idempotency_key=key, request_id=request_id) from refusal
    raise refusal


def await_final(request: Request, timeout: float, clock: Callable[[], float] = time.monotonic) -> Plan[Action]:
    """Look at an intent until its execution is final; a platform that is away for a moment is no reason to give up."""
    deadline = clock() + timeout
    pause = FIRST_LOOK_PAUSE
    seen: Action | None = None
    trouble: OpenbellError | None = None
    while True:  # ends at the deadline
        remaining = deadline - clock()
        answer = yield replace(request, timeout=max(1.0, remaining))
        assert answer is not None
        try:
            seen = _look(answer)
        except (ApiError, Unreachable) as error:
            if isinstance(error, ApiError) and error.status not in _RETRIED_STATUSES:
                raise
            trouble = error
        if seen is not None and seen.execution is not None and seen.execution.is_final:
            return seen
        remaining = deadline - clock()
        if remaining <= 0:
            break
        yield Pause(min(pause, remaining))
        pause = min(pause * 1.5, LONGEST_LOOK_PAUSE)
    if seen is None:
        assert trouble is not None
        raise trouble
    raise NotFinal(_standing(seen, timeout), action=seen)


def _exchange(request: Request) -> Plan[tuple[Reply | Lost, str]]:
    """The last answer to a request, and why the command may be recorded although that answer does not say so."""
    doubt = ""
    answer: Reply | Lost = Lost("nothing was tried", sent=False)
    for attempt in range(RETRIES + 1):
        given = yield request
        assert given is not None
        answer = given
        if isinstance(answer, Lost):
            doubt = answer.reason if answer.sent else doubt
        elif answer.is_server_failure:
            doubt = str(read_error(answer))
        pause = _pause_before_retry(answer, attempt)
        if pause is None:
            break
        if attempt < RETRIES:
            yield Pause(pause)
    return answer, doubt


def _pause_before_retry(answer: Reply | Lost, attempt: int) -> float | None:
    """How long to wait, or None where trying again would not help."""
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**attempt) * _JITTER.uniform(0.5, 1.0)
    if isinstance(answer, Lost):
        return pause
    error = None if answer.is_success else read_error(answer)
    if not isinstance(error, ApiError):
        return None
    if error.status not in _RETRIED_STATUSES and error.code not in _RETRIED_CODES:
        return None
    asked = answer.headers.get("retry-after", "")
    if not asked.isdecimal():
        return pause
    return max(pause, float(asked)) if float(asked) <= LONGEST_PAUSE else None


def _settles(error: OpenbellError) -> bool:
    return isinstance(error, ApiError) and error.status in _SETTLING_STATUSES and error.code != "controls_refused"


def _look(answer: Reply | Lost) -> Action:
    if isinstance(answer, Lost):
        raise Unreachable(f"The platform cannot be reached at {answer.reason}")
    if not answer.is_success:
        raise read_error(answer)
    return read_action(answer)


def _standing(action: Action, timeout: float) -> str:
    state = action.state if action.execution is None else action.execution.state
    return f"Intent {action.intent_id} is still {state} after {timeout:g} seconds."
