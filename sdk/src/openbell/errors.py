"""The errors of the client. Each has a `message` (what happened) and a `remedy` (what to do).

OpenbellError
├── NotConfigured            a key, an address or an account is missing or malformed; nothing was sent
├── ApiError                 the platform refused the request
│   ├── Invalid              400, 413, 415, 422
│   ├── NotAuthenticated     401
│   ├── PermissionDenied     403
│   ├── NotFound             404
│   ├── Conflict             409
│   ├── RateLimited          429
│   └── Unavailable          5xx
├── Unreachable              no connection; a command that raises it was never sent
├── OutcomeUnknown           the reply to a command was lost; it may be recorded
├── UnexpectedReply          the reply is not from the platform, or not complete
├── NotFinal                 the order was still open when wait() timed out
└── EventMissed              the event stream skipped an event
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from openbell.models import Action


class OpenbellError(Exception):
    """The base class of all errors."""

    remedy: str = ""

    @property
    def message(self) -> str:
        """What happened, without the remedy."""
        return super().__str__()

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class NotConfigured(OpenbellError):
    """A setting is missing or malformed; nothing was sent."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """The problem of one field of a request; pointer is its JSON pointer."""

    pointer: str = ""
    code: str = ""
    message: str = ""


class ApiError(OpenbellError):
    """The platform refused the request."""

    remedy = "Read the message above; if it does not help, send the request id to the operator."
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
        # The receipt with the result of each rule, if a control refused the command.
        self.receipt = receipt
        self.remedy = self.remedies.get(code, type(self).remedy)


class Invalid(ApiError):
    """The request is not valid, or a control refused it."""

    remedy = "Correct the request and send it as a new one."
    remedies: ClassVar = {
        "idempotency_key_reused": "Use a new idempotency key for a new command.",
        "controls_refused": "A control refused it: change the order, or ask an admin to change the control.",
        "not_supported": "Use what the account's broker supports: see `openbell brokers`.",
        "invalid_cursor": "Pass the cursor exactly as the last page returned it.",
    }

    def __init__(self, **facts: Any) -> None:  # noqa: ANN401 - as ApiError takes them
        super().__init__(**facts)
        rules = (self.receipt or {}).get("rules", ())
        # At the submit this rule is about the deadline only; no admin can change that.
        if {rule.get("code") for rule in rules if rule.get("verdict") == "REFUSED"} == {"STALE_ORDER"}:
            self.remedy = "Its deadline has passed: submit it again with a later one, or without."


class NotAuthenticated(ApiError):
    """The API key or access token is not valid."""

    remedy = (
        "Check the API key or the access token: it may be mistyped, disabled, revoked or expired."
        " `openbell login` gets a new token."
    )


class PermissionDenied(ApiError):
    """The API key or access token lacks a permission."""

    remedy = "Ask an admin for the permission, or use a user's token: `openbell login`, or OPENBELL_ACCESS_TOKEN."
    remedies: ClassVar = {
        "environment_mismatch": "Use a key of the account's environment: paper keys for paper, live keys for live.",
        "entitlement_required": "Ask the operator for the entitlement that the message names.",
    }


class NotFound(ApiError):
    """There is no such resource for this key."""

    remedy = "Check the account and the name or id; ids of other organizations are not found either."


class Conflict(ApiError):
    """The state of the account, the order or another command does not allow it now."""

    remedy = "Read the intent to see its state, then decide."
    remedies: ClassVar = {
        "account_disabled": "Enable the account; cancelling works meanwhile.",
        "account_not_ready": "Set the account's credential and verify it; cancelling works meanwhile.",
        "account_closed": "Use another account: a closed one can only be read.",
        "organization_disabled": "Ask the operator; cancelling works meanwhile.",
        "concurrent_change": "Send the same request again with the same idempotency key.",
        "version_mismatch": "Read it again, and send the change with its current version.",
        "idempotency_in_flight": "Send the same request again with the same idempotency key.",
    }


class RateLimited(ApiError):
    """The caller sent too many requests."""

    remedy = "Send fewer requests; wait a moment before the next one."


class Unavailable(ApiError):
    """The platform failed or is not available."""

    remedy = "Try again in a moment; if it lasts, send the request id to the operator."


class Unreachable(OpenbellError):
    """No connection could be made, or no reply came. A command that raises this was not sent."""

    remedy = "Check that the platform runs at this address and that OPENBELL_URL and OPENBELL_STREAM are right."

    def __init__(self, message: str, *, resume_token: str | None = None) -> None:
        super().__init__(message)
        self.resume_token = resume_token


class OutcomeUnknown(OpenbellError):
    """A command was sent and its reply was lost: it may or may not be recorded."""

    def __init__(self, reason: str, *, idempotency_key: str, request_id: str | None = None) -> None:
        super().__init__(f"It is not known whether the command was recorded: {reason}")
        self.idempotency_key = idempotency_key
        self.request_id = request_id
        self.remedy = (
            f"Send the same command again with idempotency_key={idempotency_key!r}: "
            "it is recorded at most once, and the reply shows the recorded action."
        )


class UnexpectedReply(OpenbellError):
    """The reply could not be read."""

    remedy = "Check that OPENBELL_URL is the platform's address and not that of a proxy or another service."


class NotFinal(OpenbellError):
    """The order was still open when wait() timed out. The order itself is not affected."""

    remedy = "Wait again, follow the events, or cancel the intent."

    def __init__(self, message: str, *, action: "Action") -> None:
        super().__init__(message)
        self.action = action


class EventMissed(OpenbellError):
    """Events are missing between two that arrived."""

    remedy = "Read the intents to see their state, then subscribe again from resume_token."

    def __init__(self, *, position: int, prev_seq: int, resume_token: str | None, reason: str = "") -> None:
        why = "are no longer in the log" if reason in ("RETENTION", "DELETED") else "did not arrive"
        super().__init__(f"Events {position + 1} to {prev_seq} of the account {why}.")
        self.position = position
        self.prev_seq = prev_seq
        self.resume_token = resume_token
        self.reason = reason
