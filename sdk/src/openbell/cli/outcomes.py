"""How a command ends: exit codes, and error messages for people."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import typer

from openbell.cli.plain_text import printable
from openbell.errors import ApiError, NotConfigured, OpenbellError, OutcomeUnknown
from openbell.json_lines import json_line

DONE: Final = 0
REFUSED: Final = 1
WRONG_USAGE: Final = 2
OUTCOME_UNKNOWN: Final = 3

# Arguments of the library, as options of the command line.
_OPTIONS: Final = {"Pass api_key,": "Pass --api-key,", "Pass account_id,": "Pass --account,"}


class SignInFailed(OpenbellError):
    """The OpenID provider or the platform refused a sign-in."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


@contextmanager
def errors_as_messages(*, as_json: bool) -> Iterator[None]:
    """Print an error on stderr, as a few lines or as JSON, and exit with its code."""
    try:
        yield
    except OpenbellError as error:
        _report(error, as_json=as_json)
        raise typer.Exit(_exit_code(error)) from error
    except ValueError as error:
        _report(NotConfigured(str(error), "Run the command with --help to see its options."), as_json=as_json)
        raise typer.Exit(WRONG_USAGE) from error


@contextmanager
def interrupted_as_unknown(idempotency_key: str) -> Iterator[None]:
    """Report the key at Ctrl-C, because an interrupted command may have been recorded."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise OutcomeUnknown("you interrupted it before the reply.", idempotency_key=idempotency_key) from error


def _exit_code(error: OpenbellError) -> int:
    if isinstance(error, ApiError | SignInFailed):
        return REFUSED
    return WRONG_USAGE if isinstance(error, NotConfigured) else OUTCOME_UNKNOWN


def _remedy(error: OpenbellError) -> str:
    if isinstance(error, OutcomeUnknown):
        return f"Run the same command again with --key {error.idempotency_key}: it is recorded at most once."
    remedy = error.remedy
    for name, option in _OPTIONS.items():
        remedy = remedy.replace(name, option)
    return remedy


def _report(error: OpenbellError, *, as_json: bool) -> None:
    request_id = getattr(error, "request_id", None)
    if as_json:
        sys.stderr.write(json_line({"error": _as_object(error, request_id)}) + "\n")
        return
    _write(error.message)
    if isinstance(error, ApiError):
        _write(*(f"  {problem.pointer}: {problem.message}" for problem in error.errors))
        if error.receipt is not None:
            from openbell.cli.receipt_tables import show_refusal

            show_refusal(error.receipt)
    _write(_remedy(error), *([f"Request id: {request_id}"] if request_id else []))


def _write(*lines: str) -> None:
    sys.stderr.write("".join(f"{printable(line)}\n" for line in lines))


def _as_object(error: OpenbellError, request_id: str | None) -> dict[str, Any]:
    known = {
        "kind": type(error).__name__,
        "code": getattr(error, "code", None),
        "message": error.message,
        "remedy": _remedy(error),
        "request_id": request_id,
        "idempotency_key": getattr(error, "idempotency_key", None),
        "resume_token": getattr(error, "resume_token", None),
        "receipt": getattr(error, "receipt", None),
    }
    return {name: value for name, value in known.items() if value}
