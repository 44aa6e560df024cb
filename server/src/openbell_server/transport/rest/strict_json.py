"""Reads a JSON body strictly: one object, each key once, no NUL, and a pointer to the first field that is wrong."""

import json
import re
from typing import Any, TypeVar

import msgspec

from openbell_server.domain.errors import FieldProblem, Problem

T = TypeVar("T")
_WHERE = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_PATTERN = re.compile(r"Expected `str` matching regex .*")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    decoded = dict(pairs)
    if len(decoded) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    if any("\0" in text for pair in pairs for text in pair if isinstance(text, str)):
        raise ValueError("a text contains NUL")
    return decoded


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def read_json(body: bytes, shape: type[T]) -> T:
    """The body as the shape: 400 if it is not JSON, 422 if it is not the shape."""
    try:
        decoded = json.loads(body, object_pairs_hook=_once, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Problem("malformed_body", f"the body is not valid JSON: {error}") from None
    try:
        return msgspec.convert(decoded, shape)
    except msgspec.ValidationError as error:
        match = _WHERE.match(str(error))
        assert match is not None
        what = _PATTERN.sub("must be a plain decimal string with at most 18 digits on either side", match["what"])
        pointer = re.sub(r"[.\[]", "/", (match["path"] or "").replace("]", "")) or "/"
        detail = f"{pointer}: {what}"
        raise Problem("invalid_command", detail, (FieldProblem(pointer, "invalid", what),)) from None
