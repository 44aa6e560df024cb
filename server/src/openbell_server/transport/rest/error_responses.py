"""Errors on the wire: problem+json (RFC 9457), one table of codes."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException
from msgspec import Struct

from openbell_server.domain.errors import CODES, FieldProblem, Problem

_FROM_STATUS = {400: "malformed_body", 404: "not_found", 405: "method_not_allowed", 413: "body_too_large"}
RETRY_AFTER_SECONDS = 1


class ProblemBody(Struct, frozen=True):
    """What a caller reads when something is refused or fails."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    remedy: str
    request_id: str
    errors: list[FieldProblem]


def problem_response(problem: Problem, request_id: str, headers: Mapping[str, str] | None = None) -> Response[bytes]:
    """The problem as a response."""
    code = CODES[problem.code]
    body = ProblemBody(
        type=f"urn:openbell:problem:{problem.code}",
        title=code.title,
        status=code.status,
        detail=problem.detail,
        code=problem.code,
        remedy=code.remedy,
        request_id=request_id,
        errors=list(problem.errors),
    )
    waiting = {"retry-after": str(RETRY_AFTER_SECONDS)} if code.status == 503 else {}
    return Response(
        msgspec.json.encode(body),
        status_code=code.status,
        media_type="application/problem+json",
        headers={**waiting, **(headers or {})},
    )


ErrorRenderer = Callable[[Request[Any, Any, Any], Exception], Response[bytes]]


def error_renderer(unavailable: tuple[type[Exception], ...]) -> ErrorRenderer:
    """Renders any error out of a handler or the router; the unavailable kinds may be retried."""
    return partial(_render, unavailable)


def _render(
    unavailable: tuple[type[Exception], ...], request: Request[Any, Any, Any], error: Exception
) -> Response[bytes]:
    request_id = str(request.scope.get("request_id", ""))
    if isinstance(error, Problem):
        return problem_response(error, request_id)
    if isinstance(error, HTTPException) and error.status_code in _FROM_STATUS:
        return problem_response(Problem(_FROM_STATUS[error.status_code], error.detail), request_id, error.headers)
    if isinstance(error, unavailable):
        structlog.get_logger().warning("unavailable", error=repr(error))
        return problem_response(Problem("unavailable", "a service behind the platform did not answer"), request_id)
    structlog.get_logger().error("unexpected_error", exc_info=error)
    return problem_response(Problem("internal_error", "an unexpected error occurred"), request_id)
