"""The parameters of a rule from options such as `--quantity 100`; the platform's list of kinds has their types."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from openbell.controls.effective import ControlKind

_BOOLEANS: Final = {"true": True, "false": False}
_FORMS: Final = 'as options, such as --quantity 500, or as one JSON object, such as {"quantity": "500"}.'


def from_json(text: str) -> dict[str, Any]:
    try:
        return dict(json.loads(text).items())
    except (ValueError, AttributeError):
        raise ValueError(f"Write the parameters {_FORMS}") from None


def from_options(code: str, words: Sequence[str], kinds: "Sequence[ControlKind]") -> dict[str, Any]:
    """A list is given by repeating its option, or with commas; a boolean without a value is true."""
    kind = next((each for each in kinds if each.code == code and each.settable), None)
    if kind is None:
        known = ", ".join(each.code for each in kinds if each.settable)
        raise ValueError(f"{code} is not a kind of rule; these are: {known}.")
    schemas = kind.parameters["properties"]
    values: dict[str, Any] = {}
    remaining = list(words)
    while remaining:
        option, is_joined, text = remaining.pop(0).partition("=")
        name = option.removeprefix("--").replace("-", "_")
        if not option.startswith("--"):
            raise ValueError(f"{option} belongs to no option. Write the parameters {_FORMS}")
        if name not in schemas:
            known = ", ".join(f"--{each.replace('_', '-')}" for each in schemas)
            raise ValueError(f"{code} has no parameter {option}; it has: {known}.")
        schema = schemas[name]
        if not is_joined:
            text = _next_value(option, remaining, is_boolean=schema["type"] == "boolean")
        if schema["type"] == "array":
            values[name] = [*values.get(name, []), *(_value(schema["items"], each) for each in text.split(",") if each)]
        elif name in values:
            raise ValueError(f"{option} is given twice and takes one value.")
        else:
            values[name] = _value(schema, text)
    return values


def _next_value(option: str, remaining: list[str], *, is_boolean: bool) -> str:
    if remaining and (remaining[0].lower() in _BOOLEANS if is_boolean else not remaining[0].startswith("--")):
        return remaining.pop(0)
    if is_boolean:
        return "true"
    raise ValueError(f"{option} needs a value, such as {option}=VALUE.")


def _value(schema: dict[str, Any], text: str) -> object:
    """The text as the schema's type; text that does not fit is sent as it is, and the platform refuses it."""
    if schema["type"] == "integer":
        try:
            return int(text)
        except ValueError:
            return text
    if schema["type"] == "boolean":
        return _BOOLEANS.get(text.lower(), text)
    return text.upper() if text.upper() in schema.get("enum", ()) else text
