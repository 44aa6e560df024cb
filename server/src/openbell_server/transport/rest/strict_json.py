"""Reads a JSON body strictly: UTF-8, each key once, no NUL, 32 levels, with a pointer to the field that is wrong."""

import json
import re
from typing import Any, Final, TypeVar

import msgspec

from openbell_server.domain.errors import FieldProblem, Problem

T = TypeVar("T")
DEPTH_MAX: Final = 32
# NUL, which PostgreSQL cannot store, and halves of characters, which nobody can encode.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_WHERE = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_PATTERN = re.compile(r"Expected `str` matching regex .*")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    decoded = dict(pairs)
    if len(decoded) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return decoded


def _refuse_unstorable(decoded: object, level: int = 1) -> None:
    if isinstance(decoded, str):
        if _UNSTORABLE.search(decoded):
            raise ValueError("a text contains NUL or half a character")
    elif isinstance(decoded, dict | list):
        if level > DEPTH_MAX:
            raise ValueError(f"it is more than {DEPTH_MAX} levels deep")
        inside = [*decoded, *decoded.values()] if isinstance(decoded, dict) else decoded
        for each in inside:
            _refuse_unstorable(each, level + 1)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def read_json(body: bytes, shape: type[T]) -> T:
    """The body as the shape: 400 if it is not JSON, 422 if it is not the shape."""
    try:
        decoded = json.loads(body.decode(), object_pairs_hook=_once, parse_constant=_refuse_constant)
        _refuse_unstorable(decoded)
    except (ValueError, RecursionError) as error:
        raise Problem("malformed_body", f"the body is not valid JSON: {error}") from None
    try:
        return msgspec.convert(decoded, shape)
    except msgspec.ValidationError as error:
        match = _WHERE.match(str(error))
        assert match is not None
        what = _PATTERN.sub("must be a plain decimal string with at most 18 digits on either side", match["what"])
        pointer = re.sub(r"[.\[]", "/", (match["path"] or "").replace("]", ""))
        detail = f"{pointer or 'the body'}: {what}"
        raise Problem("invalid_command", detail, (FieldProblem(pointer, "invalid", what),)) from None
