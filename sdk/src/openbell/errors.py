"""Every error of the client, each with one sentence that says what to do.

OpenbellError
├── NotConfigured            a key, an address or an account is missing or malformed; nothing was sent
├── ApiError                 the platform answered and refused
│   ├── Invalid              400, 413, 415, 422
│   ├── NotAuthenticated     401
│   ├── PermissionDenied     403
│   ├── NotFound             404
│   ├── Conflict             409
│   ├── RateLimited          429
│   └── Unavailable          5xx
├── Unreachable              no connection; a submit that raises it was never sent
├── OutcomeUnknown           a submit whose reply was lost: it may or may not be recorded
├── UnexpectedReply          the reply is not what the platform would say
├── NotFinal                 wait() gave up while the order was still open
└── EventMissed              the event stream skipped an event
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from openbell.models import Action


class OpenbellError(Exception):
    """The root of the tree."""

    remedy: str = ""

    @property
    def message(self) -> str:
        """What happened, without what to do."""
        return super().__str__()

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class NotConfigured(OpenbellError):
    """The client lacks something it needs before it can send anything."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """What is wrong with one field, and what would pass."""

    pointer: str = ""
    code: str = ""
    message: str = ""


class ApiError(OpenbellError):
    """The platform answered, and the answer is no."""

    remedy = "See the detail above; if it makes no sense, tell the operator the request id."
    remedies: ClassVar[dict[str, str]] = {}

    def __init__(
        self,
        *,
        code: str,
        status: int,
        detail: str,
        errors: Sequence[FieldProblem] = (),
        request_id: str | None = None,
        receipt: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.status = status
        self.detail = detail
        self.errors = tuple(errors)
        self.request_id = request_id
        # What each control said, where one refused the command.
        self.receipt = receipt
        self.remedy = self.remedies.get(code, type(self).remedy)


class Invalid(ApiError):
    """The request as written cannot be accepted."""

    remedy = "Change the request as the detail says, then send it as a new one."
    remedies: ClassVar = {
        "idempotency_key_reused": "Use a new idempotency key for a new command.",
        "controls_refused": "A control refused it: change the order, or ask an admin to change the control.",
        "not_supported": "Ask for what the account's broker supports.",
        "invalid_cursor": "Pass the cursor exactly as the last page gave it.",
    }


class NotAuthenticated(ApiError):
    """The API key was not accepted."""

    remedy = "Check the API key in OPENBELL_API_KEY; it may be mistyped, disabled, revoked or expired."


class PermissionDenied(ApiError):
    """The API key may not do this."""

    remedy = "Use a credential that may: the detail says what it takes. A token goes in OPENBELL_ACCESS_TOKEN."
    remedies: ClassVar = {
        "environment_mismatch": "Use a key of the account's environment: paper keys for paper, live keys for live.",
        "entitlement_required": "Ask the operator for the entitlement named in the detail.",
    }


class NotFound(ApiError):
    """There is no such thing for this key."""

    remedy = "Check the account and the name or id; ids of other organizations answer the same."


class Conflict(ApiError):
    """The account, the order or another command does not allow it now."""

    remedy = "Read the intent to see where it stands, then decide."
    remedies: ClassVar = {
        "account_disabled": "Enable the account; cancelling works meanwhile.",
        "account_not_ready": "Set the account's credential and have it verified; cancelling works meanwhile.",
        "account_closed": "Use another account: a closed one can only be read.",
        "organization_disabled": "Ask the operator; cancelling works meanwhile.",
        "concurrent_change": "Send the same request again with the same idempotency key.",
        "version_mismatch": "Read it again, and change the version that is there now.",
        "idempotency_in_flight": "Send the same request again with the same idempotency key.",
    }


class RateLimited(ApiError):
    """Too many requests."""

    remedy = "Send fewer requests; wait a moment before the next one."


class Unavailable(ApiError):
    """The platform could not answer this read."""

    remedy = "Try again in a moment; if it lasts, tell the operator the request id."


class Unreachable(OpenbellError):
    """No connection could be made, so nothing was sent."""

    remedy = "Check that the platform runs at this address and that OPENBELL_URL and OPENBELL_STREAM are right."

    def __init__(self, message: str, *, resume_token: str | None = None) -> None:
        super().__init__(message)
        self.resume_token = resume_token


class OutcomeUnknown(OpenbellError):
    """A command was sent and its reply never came: it may or may not be recorded."""

    def __init__(self, reason: str, *, idempotency_key: str, request_id: str | None = None) -> None:
        super().__init__(f"It is not known whether the command was recorded: {reason}")
        self.idempotency_key = idempotency_key
        self.request_id = request_id
        self.remedy = (
            f"Send the same command again with idempotency_key={idempotency_key!r}: "
            "it is recorded at most once, and the answer tells the truth."
        )


class UnexpectedReply(OpenbellError):
    """Something answered, but not in the platform's words."""

    remedy = "Check that OPENBELL_URL is the platform's address and not a proxy's or another service's."


class NotFinal(OpenbellError):
    """The order was still open when the time to wait was over; nothing about it changed."""

    remedy = "Wait again, follow the events, or cancel the intent."

    def __init__(self, message: str, *, action: "Action") -> None:
        super().__init__(message)
        self.action = action


class EventMissed(OpenbellError):
    """The stream went from one event to a later one than the next."""

    remedy = "Read the intents to see where they stand, then subscribe again from resume_token."

    def __init__(self, *, position: int, prev_seq: int, resume_token: str | None, reason: str = "") -> None:
        why = "are no longer kept" if reason == "RETENTION" else "did not arrive"
        super().__init__(f"Events {position + 1} to {prev_seq} of the account {why}.")
        self.position = position
        self.prev_seq = prev_seq
        self.resume_token = resume_token
        self.reason = reason
