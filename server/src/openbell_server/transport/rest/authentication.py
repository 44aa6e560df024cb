"""Credentials and keys in request headers."""

import re
from typing import Any

from litestar import Request

from openbell_server.domain.errors import FieldProblem, Problem

_VISIBLE = re.compile(r"[\x21-\x7e]{1,255}")


def api_key_of(request: Request[Any, Any, Any]) -> str | None:
    """The one API key of a request; two credentials are refused, whichever is stronger."""
    keys = request.headers.getall("x-api-key", [])
    others = request.headers.getall("authorization", [])
    if len(keys) + len(others) > 1:
        raise Problem("ambiguous_credentials", "more than one credential was sent")
    return keys[0] if keys else None


def idempotency_key_of(request: Request[Any, Any, Any]) -> str | None:
    """The Idempotency-Key, if one was sent."""
    keys = request.headers.getall("idempotency-key", [])
    if not keys:
        return None
    if len(keys) > 1 or not _VISIBLE.fullmatch(keys[0]):
        message = "must be one header of 1 to 255 visible ASCII characters"
        raise Problem(
            "invalid_parameter",
            f"Idempotency-Key {message}",
            (FieldProblem("/headers/idempotency-key", "invalid", message),),
        )
    return keys[0]
