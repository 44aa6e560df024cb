"""Errors as an agent can use them: a code, what happened, and what to do."""

from typing import Any, Final

import msgspec

from openbell.errors import (
    ApiError,
    EventMissed,
    NotConfigured,
    OpenbellError,
    OutcomeUnknown,
    Unavailable,
    UnexpectedReply,
    Unreachable,
)
from openbell_mcp.marking import plain
from openbell_mcp.receipts import sentences_of

Problem = dict[str, Any]

_SAME_KEY: Final = (
    "Call the tool again with the same arguments and the same idempotency_key: the command is recorded at most once,"
    " and the answer shows what was recorded. Do not use a new key."
)
# What an agent can do is less than what the remedies of the library advise people to do.
_REMEDIES: Final = {
    "permission_denied": "Stop, and report it to the person you work for: an admin must change the key.",
    "unauthenticated": "Stop, and report it to the person you work for: an admin must check or replace the key.",
    "key_disabled": "Stop, and report it to the person you work for: an admin disabled the key.",
    "controls_refused": "Do not try to get around the rule. Change the order as the receipt states, or report it.",
    "idempotency_key_reused": "This idempotency_key belongs to another command. Use a new one for a new command.",
    "environment_mismatch": "Stop, and report it: the key is for the other environment than the account.",
    "not_found": "Check the id: `orders` lists the orders of your account.",
}


def problem(code: str, message: str, remedy: str, **more: Any) -> Problem:  # noqa: ANN401 - any JSON
    return {"code": code, "message": plain(message), "remedy": plain(remedy), **more}


def outcome_unknown(reason: str, idempotency_key: str) -> Problem:
    """The answer to a command was lost."""
    return problem(
        "outcome_unknown",
        f"It is not known whether the command was recorded: {reason}",
        _SAME_KEY,
        idempotency_key=idempotency_key,
    )


def defect(idempotency_key: str | None, *, changes: bool) -> Problem:
    """A failure that nobody foresaw; its text stays in the log."""
    if changes and idempotency_key is None:
        return change_unknown()
    if idempotency_key is not None:
        return outcome_unknown("openbell-mcp itself failed.", idempotency_key)
    return problem("internal_error", "openbell-mcp itself failed.", "Call the tool again; if it lasts, report it.")


def change_unknown() -> Problem:
    """The answer to a change that can be repeated was lost."""
    return problem(
        "outcome_unknown",
        "It is not known whether the change was made: no answer arrived.",
        "Call the tool again: a second call changes nothing more.",
    )


def describe(error: Exception, idempotency_key: str | None, *, changes: bool) -> Problem:
    """`idempotency_key` is that of the command that failed, if it was one; `changes`: the tool does not only read."""
    match error:
        case OutcomeUnknown():
            return outcome_unknown("no answer arrived.", error.idempotency_key)
        case TimeoutError() | Unreachable() if idempotency_key is not None:
            return _command_without_answer(error, idempotency_key)
        case TimeoutError() | Unreachable() | Unavailable() | UnexpectedReply() if changes and idempotency_key is None:
            return change_unknown()
        case TimeoutError() | Unreachable():
            return problem("unreachable", "The platform does not answer.", "Call the tool again in a moment.")
        case ApiError():
            return _refusal(error, idempotency_key)
        case EventMissed():
            remedy = f"Read orders and positions, then call events_since with after_seq {error.prev_seq}."
            return problem("events_missed", error.message, remedy)
        case NotConfigured():
            return problem("not_configured", error.message, "The operator of openbell-mcp must correct its settings.")
        case OpenbellError():
            return problem("unexpected_reply", error.message, error.remedy)
    return problem("invalid_arguments", str(error), "Correct the arguments; nothing was sent.")


def _command_without_answer(error: TimeoutError | Unreachable, idempotency_key: str) -> Problem:
    if isinstance(error, TimeoutError):
        return outcome_unknown("the answer took too long.", idempotency_key)
    return problem(
        "not_sent",
        "This call sent no command, because the platform cannot be reached.",
        "Call the tool again in a moment with the same idempotency_key: an earlier call may have sent it.",
        idempotency_key=idempotency_key,
    )


def invalid(error: msgspec.ValidationError) -> Problem:
    return problem(
        "invalid_arguments", str(error), "Correct the arguments as the tool's schema states; nothing was sent."
    )


def _refusal(error: ApiError, idempotency_key: str | None) -> Problem:
    fields = "".join(f" {each.pointer}: {each.message}" for each in error.errors[:10])
    more: dict[str, Any] = {}
    if idempotency_key is not None:
        more["idempotency_key"] = idempotency_key
    if error.receipt is not None:
        more["receipt_id"] = plain(str(error.receipt.get("id", "")))
        more["receipt"] = sentences_of(error.receipt)
    if error.request_id:
        more["request_id"] = plain(error.request_id)
    return problem(error.code, f"{error.detail}.{fields}", _REMEDIES.get(error.code, error.remedy), **more)
