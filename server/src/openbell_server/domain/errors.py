"""Every error a caller can meet: one table of codes, each with its status and a sentence that says what to do.

OpenbellError
├── Problem                    a refusal a caller sees; its code is a row of CODES
│   ├── InvalidCommand         422 invalid_command: one field of a command is wrong
│   ├── InvalidParameter       400 invalid_parameter: one parameter of a query is wrong
│   ├── ControlsRefused        422 controls_refused: with the receipt that says which rule and why
│   └── RateLimited            429 rate_limited: calls came too often
├── OperatorError              a process or command cannot do its work before an operator mends something
└── IllegalTransition          a defect of ours: a state was asked to become what it cannot
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Code:
    """One row of the table of codes."""

    status: int
    title: str
    remedy: str


CODES: Final[dict[str, Code]] = {
    "malformed_body": Code(
        400, "The body is not valid JSON", "Send one JSON object in UTF-8, each key once, at most 32 levels deep."
    ),
    "invalid_cursor": Code(
        400,
        "The cursor is not one of ours",
        "Pass next_cursor exactly as the last page gave it, with the same query.",
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
        "This kind of caller may not do this",
        "Use a credential of another kind: API key, user or service account, as the reference says.",
    ),
    "permission_denied": Code(
        403,
        "The credential lacks the permission",
        "Use a credential that holds the permission, role or scope named in detail.",
    ),
    "organization_required": Code(
        403, "The token names no organization that is known here", "Get a token for an organization, and use that one."
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
    "not_found": Code(404, "There is no such thing here", "Check the id; ids of other organizations answer the same."),
    "method_not_allowed": Code(
        405, "The path does not take this method", "Use one of the methods that detail and the Allow header name."
    ),
    "account_disabled": Code(409, "The account is disabled", "Enable it; CANCEL works meanwhile."),
    "account_closed": Code(409, "The account is closed", "Use another account: a closed one can only be read."),
    "account_not_ready": Code(
        409,
        "The account has no good credential at its broker",
        "Set its credential and have it verified; CANCEL works meanwhile.",
    ),
    "account_busy": Code(
        409,
        "The account has an order that works, or an action that is not settled",
        "Cancel what works, wait until every action is settled, then close the account again.",
    ),
    "external_account_mismatch": Code(
        409,
        "The account is another one at the broker",
        "Use what belongs to the account that external_account_id names, or create another account.",
    ),
    "organization_disabled": Code(409, "The organization is disabled", "Ask the operator; CANCEL works meanwhile."),
    "key_revoked": Code(409, "The API key is revoked", "Create another key: a revoked one never comes back."),
    "order_terminal": Code(409, "The order is already closed", "Read the intent: it shows how it ended."),
    "order_unknown": Code(
        409,
        "It is not known whether the order reached the broker",
        "Wait until the intent is known, then send the request again; CANCEL works meanwhile.",
    ),
    "concurrent_change": Code(409, "Something changed while the command was accepted", "Send the same request again."),
    "backtest_running": Code(
        409, "A back-test of the organization is under way", "Wait until it has ended, then send the request again."
    ),
    "too_many_accounts": Code(
        409,
        "The organization has more accounts than one stream follows",
        "Follow accounts one by one; up to 1,000 of them fit one stream of an organization.",
    ),
    "label_taken": Code(
        409,
        "A subscription of the call has this label",
        "Use another subscription_id, or unsubscribe that one first; it goes on.",
    ),
    "too_many_webhooks": Code(
        409, "The organization has as many webhooks as it may", "Delete one that is not needed, or change it."
    ),
    "version_mismatch": Code(
        412, "It was changed since you read it", "Read it again, and send If-Match with the ETag of that answer."
    ),
    "body_too_large": Code(413, "The body is larger than 64 KiB", "Send a smaller body."),
    "not_json": Code(415, "The body is not JSON", "Send Content-Type: application/json."),
    "invalid_command": Code(422, "A field of the body is not valid", "See errors for the field and what would pass."),
    "not_supported": Code(
        422, "The broker does not support this", "Ask for what the broker supports; the detail names what it does not."
    ),
    "credentials_not_supported": Code(
        422, "The broker has nothing to sign in with", "Do without: accounts at this broker need no credential."
    ),
    "faults_not_supported": Code(
        422,
        "The broker does not misbehave on request",
        "Use an account of one of the built-in paper brokers; real ones need no asking.",
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
        422, "A replace cannot change this", "Send the order's own kind; cancel and create for anything else."
    ),
    "quantity_not_above_filled": Code(
        422,
        "The new quantity has filled already",
        "Send a total, fills included, that is above filled_quantity, or cancel the rest.",
    ),
    "idempotency_key_reused": Code(
        422, "The Idempotency-Key belongs to another command", "Use a new key for a new command."
    ),
    "rate_limited": Code(429, "Too many requests", "Wait for Retry-After seconds; RateLimit headers tell the limit."),
    "too_many_streams": Code(
        429,
        "The caller has too many streams open",
        "Close one, or follow more with each: one stream can follow all accounts of an organization.",
    ),
    "too_many_subscriptions": Code(
        429,
        "The call has too many subscriptions open",
        "Unsubscribe one, or open another call: one carries up to 100 subscriptions.",
    ),
    "slow_consumer": Code(
        429,
        "The stream was not read for too long",
        "Resume with openbell-resume-token, and read faster than events come, or ask for fewer of them.",
    ),
    "internal_error": Code(
        500,
        "Something failed on our side",
        "Retry with the same Idempotency-Key; tell the operator the request id.",
    ),
    "unavailable": Code(
        503,
        "The platform cannot answer now",
        "Retry with the same Idempotency-Key after Retry-After seconds.",
    ),
    "overloaded": Code(
        503,
        "More commands wait than can be accepted soon",
        "Retry after Retry-After seconds, with the same Idempotency-Key; nothing was recorded. CANCEL goes first.",
    ),
    "schema_outdated": Code(
        503,
        "The database is older than this version",
        "Ask the operator to run `openbell-server migrate`; everything else works meanwhile.",
    ),
    "identity_provider_missing": Code(
        503,
        "The identity provider's API is not configured",
        "Ask the operator to configure it; nothing was recorded.",
    ),
    "identity_provider_unavailable": Code(
        503,
        "The identity provider did not answer",
        "Try again in a while; a deletion that was asked for is finished without you.",
    ),
    "paper_broker_unavailable": Code(
        503,
        "The paper broker did not answer",
        "Try again in a while: to set the same plan twice changes nothing.",
    ),
    "vault_missing": Code(
        503,
        "Secrets cannot be kept here",
        "Ask the operator to set OPENBELL_VAULT_KEY; nothing was recorded.",
    ),
    "vault_unavailable": Code(
        503, "The key that seals secrets cannot be reached", "Try again in a while; nothing was recorded."
    ),
    "webhooks_not_configured": Code(
        503, "Webhooks are not set up here", "Ask the operator to set OPENBELL_WEBHOOK_KEY; nothing was recorded."
    ),
    "verification_unanswered": Code(
        503,
        "The broker did not answer in time",
        "Read the credential in a while: its status tells what the broker said.",
    ),
    "outcome_unknown": Code(
        503,
        "It is not known whether the command was recorded",
        "Retry with the same Idempotency-Key; the answer will tell the truth.",
    ),
}


def escaped(name: str) -> str:
    """A name as one step of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


class OpenbellError(Exception):
    """The root of the tree."""


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """What is wrong with one field, and what would pass."""

    pointer: str
    code: str
    message: str


class Problem(OpenbellError):
    """A refusal the caller sees."""

    def __init__(self, code: str, detail: str, errors: tuple[FieldProblem, ...] = ()) -> None:
        """Code is a row of CODES; detail says what happened this time."""
        assert code in CODES, code
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.errors = errors


def is_retryable(problem: Problem) -> bool:
    """Whether the same may pass later, without anybody changing it."""
    return CODES[problem.code].status in {429, 503}


class InvalidCommand(Problem):
    """One field of a command is wrong."""

    def __init__(self, field: str, message: str) -> None:
        """Field is a name or a JSON pointer, empty for the whole body; message completes 'the field …'."""
        pointer = field if field == "" or field.startswith("/") else f"/{field}"
        super().__init__(
            "invalid_command", f"{field or 'the body'} {message}", (FieldProblem(pointer, "invalid", message),)
        )


class InvalidParameter(Problem):
    """One parameter of a query is wrong."""

    def __init__(self, name: str, message: str, code: str = "invalid") -> None:
        """Message completes 'the parameter …'."""
        super().__init__("invalid_parameter", f"{name} {message}", (FieldProblem(f"/{name}", code, message),))


class ControlsRefused(Problem):
    """A control of the account said no."""

    def __init__(self, detail: str, receipt: Mapping[str, object]) -> None:
        """Receipt is the whole of it, as it is stored."""
        super().__init__("controls_refused", detail)
        self.receipt = receipt


class RateLimited(Problem):
    """Calls came too often."""

    def __init__(self, limit: int, seconds: int, wait_seconds: float) -> None:
        """At most limit calls in any so many seconds; after the wait one more may pass."""
        super().__init__("rate_limited", f"at most {limit} such calls are taken in any {seconds} s")
        self.limit = limit
        # Whole seconds, as the headers have it: never too few.
        self.wait_seconds = max(1, math.ceil(wait_seconds))


class OperatorError(OpenbellError):
    """What an operator must mend first; the message says how."""


class IllegalTransition(OpenbellError):
    """A state was asked to become what it cannot: a defect, never a caller's fault."""
