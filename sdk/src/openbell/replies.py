"""What a reply means: the record or the error in it, and whether the request is sent again."""

from dataclasses import dataclass
from http import HTTPStatus
from random import SystemRandom
from typing import Any, Final, TypeVar

import msgspec

from openbell.errors import (
    ApiError,
    Conflict,
    FieldProblem,
    Invalid,
    NotAuthenticated,
    NotFound,
    OpenbellError,
    OutcomeUnknown,
    PermissionDenied,
    RateLimited,
    Unavailable,
    UnexpectedReply,
    Unreachable,
)
from openbell.models import Record

FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 5.0
RETRIED_STATUSES: Final = frozenset({429, 500, 502, 503, 504})
_RETRIED_CODES: Final = frozenset({"concurrent_change", "idempotency_in_flight"})
# A failure with this code is sent before anything is recorded.
_NOT_RECORDED: Final = "overloaded"
# These refusals depend on the command alone, so an earlier attempt with the same command was refused as well.
_SETTLING_STATUSES: Final = frozenset({400, 413, 415, 422})
_JITTER: Final = SystemRandom()
_ERRORS: Final[dict[int, type[ApiError]]] = {
    400: Invalid,
    401: NotAuthenticated,
    403: PermissionDenied,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: RateLimited,
}

Kind = TypeVar("Kind")
Recorded = TypeVar("Recorded", bound=Record)


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP reply; header names are lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    @property
    def is_server_failure(self) -> bool:
        """The request may have taken effect."""
        return self.status >= HTTPStatus.INTERNAL_SERVER_ERROR


@dataclass(frozen=True, slots=True)
class NoReply:
    """The connection failed; `sent` is True if the request may have arrived."""

    reason: str
    sent: bool


class ProblemBody(msgspec.Struct):
    """The fields of a problem+json body that the client reads."""

    code: str = ""
    title: str = ""
    detail: str = ""
    request_id: str | None = None
    errors: tuple[FieldProblem, ...] = ()
    receipt: dict[str, Any] | None = None


def require_success(answer: Reply | NoReply) -> Reply:
    if isinstance(answer, NoReply):
        raise Unreachable(f"The platform cannot be reached at {answer.reason}.")
    if not answer.is_success:
        raise read_error(answer)
    return answer


def submitted(answer: Reply | NoReply, doubt: str, idempotency_key: str, kind: type[Recorded]) -> Recorded:
    """The recorded command; raises OutcomeUnknown unless it is certain what became of the command.

    `doubt` is the reason why an earlier attempt may have been recorded, or empty.
    """
    if isinstance(answer, NoReply):
        if doubt:
            raise OutcomeUnknown(doubt, idempotency_key=idempotency_key)
        raise Unreachable(f"The command was not sent: the platform cannot be reached at {answer.reason}.")
    request_id = answer.headers.get("x-request-id")
    if answer.is_success:
        try:
            return read_recorded(answer, kind)
        except UnexpectedReply as error:
            raise OutcomeUnknown(error.message, idempotency_key=idempotency_key, request_id=request_id) from error
    refusal = read_error(answer)
    if doubt and not _settles(refusal):
        raise OutcomeUnknown(doubt, idempotency_key=idempotency_key, request_id=request_id) from refusal
    raise refusal


def doubt_after(answer: Reply | NoReply) -> str:
    """Why the request may have taken effect although this answer does not show it; empty if it cannot have."""
    if isinstance(answer, NoReply):
        return answer.reason if answer.sent else ""
    if not answer.is_server_failure:
        return ""
    error = read_error(answer)
    return "" if isinstance(error, ApiError) and error.code == _NOT_RECORDED else str(error)


def pause_before_retry(answer: Reply | NoReply, attempt: int) -> float | None:
    """Seconds to wait, or None if a retry cannot help. A Retry-After longer than LONGEST_PAUSE is not waited for."""
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**attempt) * _JITTER.uniform(0.5, 1.0)
    if isinstance(answer, NoReply):
        return pause
    error = None if answer.is_success else read_error(answer)
    if not isinstance(error, ApiError):
        return None
    if error.status not in RETRIED_STATUSES and error.code not in _RETRIED_CODES:
        return None
    retry_after = answer.headers.get("retry-after", "")
    if not retry_after.isdecimal():
        return pause
    return max(pause, float(retry_after)) if float(retry_after) <= LONGEST_PAUSE else None


def read_recorded(reply: Reply, kind: type[Recorded]) -> Recorded:
    """A command that was recorded, with the note whether an earlier request did it."""
    recorded = read(reply, kind)
    if reply.headers.get("idempotency-replayed", "").lower() == "true":
        return msgspec.structs.replace(recorded, replayed=True)
    return recorded


def read(reply: Reply, kind: type[Kind]) -> Kind:
    """The body of a successful reply; raises UnexpectedReply if it is not a `kind`."""
    try:
        return msgspec.json.decode(reply.body, type=kind)
    except msgspec.MsgspecError as error:
        request_id = reply.headers.get("x-request-id")
        note = f" (request {request_id})" if request_id else ""
        raise UnexpectedReply(f"The {reply.status} reply cannot be read: {error}{note}.") from error


def read_error(reply: Reply) -> ApiError | UnexpectedReply:
    """The error of a reply that is not a success, also if a proxy sent it."""
    if reply.status < HTTPStatus.BAD_REQUEST:
        return UnexpectedReply(f"The server answered {reply.status} instead of the platform's reply.")
    try:
        problem = msgspec.json.decode(reply.body, type=ProblemBody)
    except msgspec.MsgspecError:
        problem = ProblemBody()
    kind = _ERRORS.get(reply.status, Unavailable if reply.is_server_failure else ApiError)
    return kind(
        code=problem.code or f"http_{reply.status}",
        status=reply.status,
        detail=problem.detail or problem.title or f"The server answered {reply.status} without a reason.",
        errors=problem.errors,
        request_id=problem.request_id or reply.headers.get("x-request-id"),
        receipt=problem.receipt,
    )


def _settles(error: OpenbellError) -> bool:
    return isinstance(error, ApiError) and error.status in _SETTLING_STATUSES and error.code != "controls_refused"
