"""Decodes a JSON body strictly into a type; an error points at the wrong field and describes valid values."""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from types import NoneType, UnionType
from typing import Annotated, Any, Final, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
from litestar import Request
from litestar.exceptions.http_exceptions import InternalServerException, RequestEntityTooLarge
from msgspec import structs

from openbell_server.domain import strict_json
from openbell_server.domain.errors import FieldProblem, Problem, escaped

T = TypeVar("T")
Wanted = TypeVar("Wanted")
_COMMON_TYPES = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})
# The text of msgspec's errors. The first part may contain the caller's input, the path never does.
_AT = re.compile(r"^(?P<what>.*) - at `\$(?P<path>[^`]*)`$", re.DOTALL)
_STEP = re.compile(r"\[(\d+)\]|\.([^.\[]+)")
_MISSING = re.compile(r"Object missing required field `(.+)`")
_MSGSPEC_PREFIXES = ("Expected", "Invalid", "Object")
_KINDS = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list", dict: "an object"}
_BOUNDS = {"minimum": "from", "maximum": "to"}
_LENGTHS = {"minItems": "at least", "maxItems": "at most"}
Schema = Mapping[str, Any]
Steps = list[str | int]
# How many wrong fields one response reports.
WRONG_MAX: Final = 20


async def read_body(request: Request[Any, Any, Any], shape: type[T]) -> T:
    """Decode the JSON body; raises a Problem that names the wrong field."""
    return read_json(await json_body_of(request), shape)


def body_reader(
    request: Request[Any, Any, Any], shape: type[T], convert: Callable[[T], Wanted]
) -> Callable[[], Awaitable[Wanted]]:
    """A function that reads and converts the body; a use case calls it after the checks that precede the body's."""

    async def read() -> Wanted:
        return convert(await read_body(request, shape))

    return read


async def json_body_of(request: Request[Any, Any, Any]) -> bytes:
    """The raw body, which can be read once; raises a Problem if it is not declared as JSON or is too large."""
    media_type = request.content_type[0]
    if media_type.lower() != "application/json":
        # The error repeats only well-known types: any other value may be a secret in the wrong header.
        shown = media_type if media_type.lower() in _COMMON_TYPES else "another" if media_type else "missing"
        raise Problem("not_json", f"the body's content type is {shown}")
    try:
        # Litestar's own reader keeps the body in the scope, which lives as long as an idle connection and longer.
        return b"".join([part async for part in request.stream()])
    except RequestEntityTooLarge:
        raise Problem("body_too_large", "the body is too large") from None
    except InternalServerException:
        # Litestar raises this when the client disconnects. That is not a server error, so it is not logged as one.
        raise Problem("malformed_body", "the connection ended before the whole body arrived") from None


def read_json(body: bytes, shape: type[T]) -> T:
    """The body as the shape: 400 if it is not JSON, 422 if it does not match the shape."""
    return read_shape(decode_json(body), shape)


def decode_json(body: bytes) -> object:
    """The decoded body: 400 if it is not JSON."""
    try:
        return strict_json.decode(body)
    except ValueError as error:
        raise Problem("malformed_body", f"the body is not valid JSON: {error}") from None


def read_shape(decoded: object, shape: type[T]) -> T:
    """The decoded body as the shape: 422 if it does not match."""
    try:
        return msgspec.convert(decoded, shape)
    except msgspec.ValidationError:
        wrong = tuple(islice(_wrong_fields(decoded, shape, _Whole(shape, decoded), []), WRONG_MAX))
        detail = "; ".join(f"{each.pointer or 'the body'} {each.message}" for each in wrong)
        raise Problem("invalid_command", detail, wrong) from None


class _Whole(NamedTuple):
    shape: type
    decoded: object


def _wrong_fields(found: object, kind: Any, whole: _Whole, steps: Steps) -> Iterator[FieldProblem]:  # noqa: ANN401 - a type, of any form
    """Every wrong field at or below these steps; msgspec reports only the first, so each field is converted alone."""
    is_wrong = False
    for each in _wrong_parts(found, kind, whole, steps):
        is_wrong = True
        yield each
    if is_wrong:
        return
    try:
        msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        yield _explain(str(error), *whole, steps)


def _wrong_parts(found: object, kind: Any, whole: _Whole, steps: Steps) -> Iterator[FieldProblem]:  # noqa: ANN401 - a type, of any form
    """The wrong fields of an object, or of the objects in a list."""
    struct, item = _struct_of(kind, found), _item_of(kind)
    if isinstance(found, dict) and struct is not None:
        fields = structs.fields(struct)
        names = [field.encode_name for field in fields]
        for name in found:
            if name not in (*names, _tag_field(struct)):
                message = f"is not a field here; the fields are {', '.join(names)}"
                yield FieldProblem(_pointer([*steps, name]), "unknown_field", message)
        for field in fields:
            there = [*steps, field.encode_name]
            if field.encode_name in found:
                yield from _wrong_fields(found[field.encode_name], field.type, whole, there)
            elif field.required:
                yield _missing(whole, there)
    elif isinstance(found, list) and item is not None:
        for number, each in enumerate(found):
            yield from _wrong_fields(each, item, whole, [*steps, number])


def _kinds_of(kind: Any) -> list[Any]:  # noqa: ANN401 - a type, of any form
    """The types of a union or of an annotated type, without None and the type of absent fields."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    plain = [get_args(each)[0] if get_origin(each) is Annotated else each for each in kinds]
    return [each for each in plain if each not in (NoneType, msgspec.UnsetType)]


def _struct_of(kind: Any, found: object) -> type[msgspec.Struct] | None:  # noqa: ANN401 - a type, of any form
    """The struct that an object must have the fields of; of several the one that the object's tag selects."""
    kinds = [each for each in _kinds_of(kind) if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    if len(kinds) == 1:
        return kinds[0]
    tagged = [each for each in kinds if isinstance(found, dict) and found.get(_tag_field(each)) == _tag(each)]
    return tagged[0] if len(tagged) == 1 else None


def _tag_field(struct: type[msgspec.Struct]) -> str | None:
    return struct.__struct_config__.tag_field


def _tag(struct: type[msgspec.Struct]) -> object:
    return struct.__struct_config__.tag


def _item_of(kind: Any) -> Any:  # noqa: ANN401 - a type, of any form
    """The type of a list's items, or None if they are not objects."""
    lists = [each for each in _kinds_of(kind) if get_origin(each) is list]
    item = get_args(lists[0])[0] if len(lists) == 1 else None
    return item if item is not None and _struct_of(item, None) is not None else None


def _missing(whole: _Whole, steps: Steps) -> FieldProblem:
    passes = _passes(_schema_at(whole.shape, steps, whole.decoded))
    return FieldProblem(_pointer(steps), "missing", f"is missing; it must be {passes}")


def _explain(error: str, shape: type, decoded: object, above: Steps) -> FieldProblem:
    """Translate msgspec's error about a value into a pointer, a code and a description of valid values."""
    match = _AT.match(error)
    what, path = (match["what"], match["path"]) if match else (error, "")
    steps: Steps = [*above, *(int(number) if number else name for number, name in _STEP.findall(path))]
    missing = _MISSING.fullmatch(what)
    if missing:
        return _missing(_Whole(shape, decoded), [*steps, missing[1]])
    schema, found = _schema_at(shape, steps, decoded), _found_at(decoded, steps)
    if not what.startswith(_MSGSPEC_PREFIXES):
        return FieldProblem(_pointer(steps), "invalid", what)
    kind = "null" if found is None else _KINDS[type(found)]
    instead = f", not {kind}" if ", got `" in what else ""
    return FieldProblem(_pointer(steps), "invalid", f"must be {_passes(schema)}{instead}")


def _pointer(steps: Steps) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join("/" + escaped(str(step)) for step in steps)


@cache
def _schema_of(shape: type) -> Schema:
    return msgspec.json.schema(shape)


def _schema_at(shape: type, steps: Steps, decoded: object) -> Schema:
    """The schema of the field at these steps; the tag in the body selects among tagged types."""
    whole = _schema_of(shape)
    schema, found = _plain(whole, whole, decoded), decoded
    for step in steps:
        if step == schema.get("discriminator", {}).get("propertyName"):
            return {"enum": list(schema["discriminator"]["mapping"])}
        inner = schema.get("items", {}) if isinstance(step, int) else schema.get("properties", {}).get(step, {})
        found = _found_at(found, [step])
        schema = _plain(whole, inner, found)
    return schema


def _plain(whole: Schema, schema: Schema, found: object) -> Schema:
    """The schema without references; of several types the one that the body's tag selects, if it has one."""
    if "$ref" in schema:
        return _plain(whole, whole["$defs"][schema["$ref"].rpartition("/")[2]], found)
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1:
        return _plain(whole, kinds[0], found)
    if "discriminator" in schema and isinstance(found, dict):
        tag = found.get(schema["discriminator"]["propertyName"])
        meant = schema["discriminator"]["mapping"].get(tag) if isinstance(tag, str) else None
        if meant is not None:
            return _plain(whole, {"$ref": meant}, found)
    return schema


def _passes(schema: Schema) -> str:
    """Describe the values that the schema accepts."""
    if "enum" in schema:
        return "one of " + ", ".join(str(value) for value in schema["enum"])
    if "discriminator" in schema:
        name, tags = schema["discriminator"]["propertyName"], schema["discriminator"]["mapping"]
        return f"an object whose {name} is one of {', '.join(tags)}"
    match schema.get("type"):
        case "string":
            return _text_that_passes(schema)
        case "object":
            fields = ", ".join(schema.get("properties", ()))
            return f"an object with the fields {fields}" if fields else "an object"
        case "array":
            return _list_that_passes(schema)
        case "boolean":
            return "true or false"
        case "integer":
            bounds = [f"{preposition} {schema[rule]}" for rule, preposition in _BOUNDS.items() if rule in schema]
            return " ".join(["a whole number", *bounds])
    return "as the reference describes it"


def _list_that_passes(schema: Schema) -> str:
    bounds = [f"{bound} {schema[rule]}" for rule, bound in _LENGTHS.items() if rule in schema]
    text = " ".join(["a list", *(["of", " and ".join(bounds)] if bounds else [])])
    return f"{text}, each item {_passes(schema['items'])}" if "type" in schema["items"] else text


def _text_that_passes(schema: Schema) -> str:
    if schema.get("format") == "uuid":
        return 'a UUID like "01981d3c-7a00-7000-8000-000000000003"'
    if schema.get("format") == "date-time":
        return 'an RFC 3339 time with an offset like "2026-01-31T09:30:00Z"'
    text = "a string"
    if "examples" in schema:
        text += f' like "{schema["examples"][0]}"'
    elif "maxLength" in schema:
        text += f" of {schema.get('minLength', 0)} to {schema['maxLength']} characters"
    if "description" in schema:
        text += f" ({schema['description'].rstrip('.')})"
    return text


def _found_at(decoded: object, steps: Steps) -> object:
    for step in steps:
        if isinstance(decoded, dict):
            decoded = decoded.get(step)
        elif isinstance(decoded, list) and isinstance(step, int) and step < len(decoded):
            decoded = decoded[step]
        else:
            return None
    return decoded
