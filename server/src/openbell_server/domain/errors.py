"""Errors that callers receive: one table of codes, each with an HTTP status, a title and a remedy.

OpenbellError
├── Problem                    an error response; its code is a row of CODES
│   ├── InvalidCommand         422 invalid_command: one field of a command is wrong
│   ├── InvalidParameter       400 invalid_parameter: one parameter of a query is wrong
│   ├── ControlsRefused        422 controls_refused: the receipt shows which rule refused and why
│   └── RateLimited            429 rate_limited: too many calls
│       └── CapReached         429: the organization uses as much at once as its cap allows
├── OperatorError              a process or command cannot continue until an operator fixes something
└── IllegalTransition          a defect of Openbell: the state table does not allow the step
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Code:
    status: int
    title: str
    remedy: str


CODES: Final[dict[str, Code]] = {
    "malformed_body": Code(
        400, "The body is not valid JSON", "Send one JSON object in UTF-8, each key once, at most 32 levels deep."
    ),
    "invalid_cursor": Code(
        400,
        "The cursor is not valid",
        "Send next_cursor unchanged from the previous page, with the same query.",
    ),
    "invalid_parameter": Code(400, "A parameter is not valid", "See errors for the parameter and what would pass."),
    "ambiguous_credentials": Code(
        400, "More than one credential was sent", "Send either x-api-key or Authorization, once."
    ),
    "invalid_header": Code(
        400, "A header is missing or cannot be read", "See errors for the header and what would pass."
    ),
    "unauthenticated": Code(
        401,
        "No valid credential was sent",
        "Send an API key as x-api-key, or an access token as Authorization: Bearer; both expire and can be revoked.",
    ),
    "key_disabled": Code(401, "The API key is disabled", "Enable the key, or use another one."),
    "principal_kind_not_allowed": Code(
        403,
        "This kind of caller is not allowed here",
        "Use another kind of credential (API key, user or service account): the API reference lists the allowed kinds.",
    ),
    "permission_denied": Code(
        403,
        "The credential lacks the permission",
        "Ask an admin for the permission, role or scope named in detail, or use a credential that has it.",
    ),
    "organization_required": Code(
        403,
        "The token has no organization known to this platform",
        "Get a token for an organization and send that token.",
    ),
    "organization_mismatch": Code(
        403,
        "x-organization-id names another organization",
        "Leave the header out; only service accounts choose an organization.",
    ),
    "environment_mismatch": Code(403, "The key is for another environment", "Use a key of the account's environment."),
    "entitlement_required": Code(
        403, "The organization lacks an entitlement", "Ask the operator for the entitlement named in detail."
    ),
    "not_found": Code(
        404, "The resource does not exist", "Check the id. Resources of other organizations are not found either."
    ),
    "method_not_allowed": Code(
        405, "The path does not support this method", "Use one of the methods in detail and in the Allow header."
    ),
    "account_disabled": Code(409, "The account is disabled", "Enable the account. CANCEL still works."),
    "account_closed": Code(409, "The account is closed", "Use another account: a closed account can only be read."),
    "account_not_ready": Code(
        409,
        "The account has no valid broker credential",
        "Set the account's credential and verify it. CANCEL still works.",
    ),
    "account_busy": Code(
        409,
        "The account has a working order or an unsettled action",
        "Cancel the working orders, wait until every action is settled, then close the account again.",
    ),
    "external_account_mismatch": Code(
        409,
        "external_account_id names another account at the broker",
        "Use a credential of the account that external_account_id names, or create another account.",
    ),
    "organization_disabled": Code(409, "The organization is disabled", "Ask the operator. CANCEL still works."),
    "key_revoked": Code(409, "The API key is revoked", "Create another key: a revoked key cannot be restored."),
    "order_terminal": Code(409, "The order is already closed", "Read the intent: it shows how it ended."),
    "order_unknown": Code(
        409,
        "It is not known whether the order reached the broker",
        "Wait until the intent's outcome is known, then send the request again. CANCEL still works.",
    ),
    "concurrent_change": Code(409, "Something changed while the command was accepted", "Send the same request again."),
    "backtest_running": Code(
        409,
        "The organization has as many back-tests running as it may",
        "Wait until one has ended, then send the request again.",
    ),
    "heartbeat_missed": Code(
        409,
        "A promised heartbeat was missed",
        "Stop sending orders. Once the halt is lifted, send the request again: it arms the promise again.",
    ),
    "too_many_accounts": Code(
        409,
        "The organization has more accounts than one stream can follow",
        "Follow accounts one by one; up to 1,000 of them fit one stream of an organization.",
    ),
    "label_taken": Code(
        409,
        "The call already has a subscription with this label",
        "Use another subscription_id, or unsubscribe the existing subscription first. It stays open.",
    ),
    "cap_reached": Code(
        409,
        "The organization has as many of these as its cap allows",
        "Remove one that is not needed, or ask the operator to raise the cap that detail names.",
    ),
    "version_mismatch": Code(
        412, "The resource changed since you read it", "Read it again, then send If-Match with the new ETag."
    ),
    "body_too_large": Code(413, "The body is larger than 64 KiB", "Send a smaller body."),
    "not_json": Code(415, "The body is not JSON", "Send Content-Type: application/json."),
    "invalid_command": Code(422, "A field of the body is not valid", "See errors for the field and what would pass."),
    "not_supported": Code(
        422,
        "The broker does not support this",
        "See detail for what the broker does not support, and change the request.",
    ),
    "credentials_not_supported": Code(
        422, "The broker uses no credentials", "Set none: accounts at this broker need no credential."
    ),
    "faults_not_supported": Code(
        422,
        "The broker does not support fault plans",
        "Use an account of one of the built-in paper brokers.",
    ),
    "controls_refused": Code(
        422,
        "A control refused the command",
        "See receipt for each rule, its limit and what was observed; nothing was recorded. CANCEL is never refused.",
    ),
    "replace_not_supported": Code(
        422, "The broker cannot replace an order", "Cancel the intent and, once it has ended, create another."
    ),
    "immutable_field": Code(
        422, "A replace cannot change this field", "Send the order's own type. For any other change, cancel and create."
    ),
    "quantity_not_above_filled": Code(
        422,
        "The new quantity is not above the filled quantity",
        "Send a total, fills included, that is above filled_quantity, or cancel the rest.",
    ),
    "idempotency_key_reused": Code(
        422, "The Idempotency-Key belongs to another command", "Use a new key for a new command."
    ),
    "rate_limited": Code(
        429, "Too many requests", "Wait for Retry-After seconds; the RateLimit headers show the limit."
    ),
    "too_many_streams": Code(
        429,
        "Too many streams are open",
        "Close one, or use fewer: one stream can follow all accounts of an organization. detail names the limit.",
    ),
    "too_many_reads": Code(
        429,
        "The organization has too many requests in progress",
        "Wait for Retry-After seconds, and send fewer requests at once. Commands and changes of controls still work.",
    ),
    "too_many_subscriptions": Code(
        429,
        "The call has too many open subscriptions",
        "Unsubscribe one, or open another call: a call carries up to 100 subscriptions.",
    ),
    "slow_consumer": Code(
        429,
        "The stream was not read for too long",
        "Resume with openbell-resume-token. Read faster, or filter to receive fewer events.",
    ),
    "internal_error": Code(
        500,
        "An internal error occurred",
        "Retry with the same Idempotency-Key. If it fails again, report the request id to the operator.",
    ),
    "unavailable": Code(
        503,
        "The platform is temporarily unavailable",
        "Retry with the same Idempotency-Key after Retry-After seconds.",
    ),
    "overloaded": Code(
        503,
        "Too many commands are waiting",
        "Retry after Retry-After seconds, with the same Idempotency-Key; nothing was recorded. CANCEL has priority.",
    ),
    "schema_outdated": Code(
        503,
        "The database schema is older than this version",
        "Ask the operator to run `openbell-server migrate`. All other requests still work.",
    ),
    "identity_provider_missing": Code(
        503,
        "The identity provider's API is not configured",
        "Ask the operator to configure it; nothing was recorded.",
    ),
    "identity_provider_unavailable": Code(
        503,
        "The identity provider did not answer",
        "Retry later. A requested deletion is finished automatically.",
    ),
    "paper_broker_unavailable": Code(
        503,
        "The paper broker did not answer",
        "Retry later: setting the same plan twice changes nothing.",
    ),
    "vault_missing": Code(
        503,
        "No vault is configured to store secrets",
        "Ask the operator to set OPENBELL_VAULT_KEY; nothing was recorded.",
    ),
    "vault_unavailable": Code(
        503, "The key that encrypts secrets cannot be reached", "Retry later; nothing was recorded."
    ),
    "webhooks_not_configured": Code(
        503, "Webhooks are not configured", "Ask the operator to set OPENBELL_WEBHOOK_KEY; nothing was recorded."
    ),
    "verification_unanswered": Code(
        503,
        "The broker did not answer in time",
        "Read the credential later: its status shows the broker's answer.",
    ),
    "outcome_unknown": Code(
        503,
        "It is not known whether the command was recorded",
        "Retry with the same Idempotency-Key: the response then shows the recorded outcome.",
    ),
}


def escaped(name: str) -> str:
    """Escape a name as one step of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


class OpenbellError(Exception):
    pass


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One wrong field, as a JSON pointer, with what would pass."""

    pointer: str
    code: str
    message: str


class Problem(OpenbellError):
    def __init__(self, code: str, detail: str, errors: tuple[FieldProblem, ...] = ()) -> None:
        assert code in CODES, code
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.errors = errors


def is_retryable(problem: Problem) -> bool:
    """Whether the same request may pass later without a change."""
    return CODES[problem.code].status in {429, 503}


class InvalidCommand(Problem):
    """One field of a command is wrong.

    `field` is a name or a JSON pointer, or empty for the whole body; `message` completes "the field …".
    """

    def __init__(self, field: str, message: str) -> None:
        pointer = field if field == "" or field.startswith("/") else f"/{field}"
        super().__init__(
            "invalid_command", f"{field or 'the body'} {message}", (FieldProblem(pointer, "invalid", message),)
        )


def checked_together(*checks: Callable[[], Any]) -> list[Any]:
    """The result of every check; if some raise a Problem, one of the first's code with the wrong fields of all."""
    results, problems = [], []
    for check in checks:
        try:
            results.append(check())
        except Problem as problem:
            problems.append(problem)
    if problems:
        errors = tuple(error for problem in problems for error in problem.errors)
        raise Problem(problems[0].code, "; ".join(problem.detail for problem in problems), errors)
    return results


class InvalidParameter(Problem):
    """One query parameter is wrong; `message` completes "the parameter …"."""

    def __init__(self, name: str, message: str, code: str = "invalid") -> None:
        super().__init__("invalid_parameter", f"{name} {message}", (FieldProblem(f"/{name}", code, message),))


class ControlsRefused(Problem):
    """A control refused the command; `receipt` is the stored receipt."""

    def __init__(self, detail: str, receipt: Mapping[str, object]) -> None:
        super().__init__("controls_refused", detail)
        self.receipt = receipt


class RateLimited(Problem):
    """More than `limit` calls came within `seconds`; the next call may pass after `wait_seconds`."""

    def __init__(self, limit: int, seconds: int, wait_seconds: float) -> None:
        super().__init__("rate_limited", f"at most {limit} such calls are accepted in any {seconds} s")
        self.limit = limit
        # Rounded up: Retry-After is in whole seconds and must never be too short.
        self.wait_seconds = max(1, math.ceil(wait_seconds))


class CapReached(RateLimited):
    """The organization uses as much at once as its cap allows."""

    def __init__(self, code: str, detail: str, limit: int) -> None:
        Problem.__init__(self, code, detail)
        self.limit = limit
        self.wait_seconds = 1


class OperatorError(OpenbellError):
    """An operator must fix something first; the message names it."""


class IllegalTransition(OpenbellError):
    """The state table does not allow the step: a defect, never a caller's error."""
