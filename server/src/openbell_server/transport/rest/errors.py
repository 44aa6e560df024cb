"""Renders errors as problem+json (RFC 9457), with the codes of one table."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import msgspec
import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException, MethodNotAllowedException
from litestar.utils.path import normalize_path
from msgspec import UNSET, Struct, UnsetType

from openbell_server.domain.controls.facts import Gate
from openbell_server.domain.controls.findings import Comparison, Mode, Scope, Verdict
from openbell_server.domain.errors import CODES, ControlsRefused, FieldProblem, Problem, RateLimited

_FROM_STATUS = {400: "malformed_body", 404: "not_found", 413: "body_too_large"}
_NO_ROUTE = "no operation has this path: check it, and that every id in it is a UUID"
# These paths answer every error as plain text.
PLAIN_PATHS = frozenset({"/v1/accounts/outbox/health", "/v1/users/me"})
_HEADERS = {401: {"www-authenticate": 'Bearer realm="openbell"'}, 503: {"retry-after": "1"}}


class FindingBody(Struct, frozen=True):
    """The result of one rule for a command; comparison states how observed is compared with limit."""

    code: str
    scope: Scope
    mode: Mode
    verdict: Verdict
    comparison: Comparison
    limit: str | int | list[str | list[str]] | None
    observed: str | int | list[str | list[str]] | None
    control_version: int | None
    would_pass: str | UnsetType = UNSET
    headroom: str | UnsetType = UNSET
    missing: str | UnsetType = UNSET
    inputs: dict[str, str] | UnsetType = UNSET


class OrderTermsBody(Struct, frozen=True):
    """The terms of an order at the time when a replace of it was evaluated."""

    quantity: str
    time_in_force: str
    filled_quantity: str
    limit_price: str | UnsetType = UNSET
    stop_price: str | UnsetType = UNSET


class CommandBody(Struct, frozen=True):
    """A command as the rules evaluated it."""

    action_type: str
    symbol: str | UnsetType = UNSET
    order_side: str | UnsetType = UNSET
    order_type: str | UnsetType = UNSET
    quantity: str | UnsetType = UNSET
    limit_price: str | UnsetType = UNSET
    stop_price: str | UnsetType = UNSET
    time_in_force: str | UnsetType = UNSET
    deadline: str | UnsetType = UNSET
    allow_duplicate: bool | UnsetType = UNSET
    protects_position: bool | UnsetType = UNSET
    api_key_id: str | UnsetType = UNSET
    before: OrderTermsBody | UnsetType = UNSET


class ReceiptBody(Struct, frozen=True):
    """The full explanation of one evaluation of the controls."""

    version: int
    gate: Gate
    verdict: Verdict
    organization_epoch: int
    account_epoch: int
    evaluated_at: str
    command: CommandBody
    rules: list[FindingBody]
    exempt: str | UnsetType = UNSET
    watched_only: bool | UnsetType = UNSET
    # Absent in a stored text, and in a dry run.
    id: UUID | UnsetType = UNSET


class ProblemBody(Struct, frozen=True):
    """An error response."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    remedy: str
    request_id: str
    errors: list[FieldProblem]
    # Present only if a control refused the command.
    receipt: ReceiptBody | UnsetType = UNSET


def status_headers(status: int) -> Mapping[str, str]:
    """The headers that every error of this status has."""
    return _HEADERS.get(status, {})


def problem_body(problem: Problem, request_id: str) -> ProblemBody:
    code = CODES[problem.code]
    return ProblemBody(
        type=f"urn:openbell:problem:{problem.code}",
        title=code.title,
        status=code.status,
        detail=problem.detail,
        code=problem.code,
        remedy=code.remedy,
        request_id=request_id,
        errors=list(problem.errors),
        receipt=msgspec.convert(problem.receipt, ReceiptBody) if isinstance(problem, ControlsRefused) else UNSET,
    )


def problem_response(problem: Problem, request_id: str, headers: Mapping[str, str] | None = None) -> Response[bytes]:
    code, body = CODES[problem.code], problem_body(problem, request_id)
    return Response(
        msgspec.json.encode(body),
        status_code=code.status,
        media_type="application/problem+json",
        headers={**status_headers(code.status), **(headers or {})},
    )


def plain_response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response[bytes]:
    status = CODES[problem.code].status
    return Response(
        b"unauthorized" if status == 401 else problem.detail.encode(),
        status_code=status,
        # Litestar adds the charset.
        media_type="text/plain",
        headers={**status_headers(status), **(headers or {})},
    )


ErrorRenderer = Callable[[Request[Any, Any, Any], Exception], Response[bytes]]


def error_renderer(unavailable: tuple[type[Exception], ...], outdated: tuple[type[Exception], ...]) -> ErrorRenderer:
    """Renders every error of a handler or the router.

    `unavailable` lists errors that the caller may retry; `outdated` lists the database errors of a missing migration.
    """

    def render(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
        problem, headers = _problem(error, unavailable, outdated)
        # The router ignores trailing and doubled slashes, so those paths lead to the same route.
        if normalize_path(request.scope["path"]) in PLAIN_PATHS:
            return plain_response(problem, headers)
        return problem_response(problem, str(request.scope.get("request_id", "")), headers)

    return render


def _problem(
    error: Exception, unavailable: tuple[type[Exception], ...], outdated: tuple[type[Exception], ...]
) -> tuple[Problem, Mapping[str, str] | None]:
    log = structlog.get_logger()
    if isinstance(error, RateLimited):
        wait = str(error.wait_seconds)
        limits = {"ratelimit-limit": str(error.limit), "ratelimit-remaining": "0", "ratelimit-reset": wait}
        return error, {"retry-after": wait, **limits}
    if isinstance(error, Problem):
        return error, None
    if isinstance(error, MethodNotAllowedException):
        methods = [method for method in (error.headers or {})["allow"].split(", ") if method != "OPTIONS"]
        allowed = ", ".join(sorted(methods))
        return Problem("method_not_allowed", f"this path takes {allowed}"), {"allow": allowed}
    if isinstance(error, HTTPException) and error.status_code in _FROM_STATUS:
        # Only the router raises this 404; its own text explains nothing.
        detail = _NO_ROUTE if error.status_code == 404 else error.detail
        return Problem(_FROM_STATUS[error.status_code], detail), error.headers
    if isinstance(error, unavailable):
        log.warning("unavailable", error=repr(error))
        return Problem("unavailable", "a service behind the platform did not answer"), None
    if isinstance(error, outdated):
        log.error("schema_outdated", exc_info=error)
        return Problem("schema_outdated", "the database was not migrated to this version's schema yet"), None
    log.error("unexpected_error", exc_info=error)
    return Problem("internal_error", "an unexpected error occurred"), None
