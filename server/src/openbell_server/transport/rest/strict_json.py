"""Reads a JSON body strictly into a shape, with a pointer to the field that is wrong."""

import re
from typing import TypeVar

import msgspec

from openbell_server.domain import strict_json
from openbell_server.domain.errors import FieldProblem, Problem

T = TypeVar("T", bound=msgspec.Struct)
_WHERE = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_PATTERN = re.compile(r"Expected `str` matching regex .*")


def read_json(body: bytes, shape: type[T]) -> T:
    """The body as the shape: 400 if it is not JSON, 422 if it is not the shape."""
    return read_shape(decode_json(body), shape)


def decode_json(body: bytes) -> object:
    """What the body says: 400 if it is not JSON."""
    try:
        return strict_json.decode(body)
    except ValueError as error:
        raise Problem("malformed_body", f"the body is not valid JSON: {error}") from None


def read_shape(decoded: object, shape: type[T]) -> T:
    """What a body says as the shape: 422 if it is not."""
    try:
        return msgspec.convert(decoded, shape)
    except msgspec.ValidationError as error:
        match = _WHERE.match(str(error))
        assert match is not None
        what = _PATTERN.sub("must be a plain decimal string with at most 18 digits on either side", match["what"])
        if what.startswith("Object contains unknown field") and match["path"] is None:
            what += f"; it takes {', '.join(field.encode_name for field in msgspec.structs.fields(shape))}"
        pointer = re.sub(r"[.\[]", "/", (match["path"] or "").replace("]", ""))
        detail = f"{pointer or 'the body'}: {what}"
        raise Problem("invalid_command", detail, (FieldProblem(pointer, "invalid", what),)) from None
