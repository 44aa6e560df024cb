"""The parameters of a rule from options such as `--quantity 100`; schemas have their names and types."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

# By code, then by name: the JSON schema of a parameter.
Schemas = Mapping[str, Mapping[str, Mapping[str, Any]]]
HELP: Final = (
    "The parameters as options, such as --quantity 500: `openbell controls kinds` lists them. A list: repeat its"
    " option, or use commas. Or all of them as one JSON object."
)
_BOOLEANS: Final = {"true": True, "false": False}
_FORMS: Final = 'as options, such as --quantity 500, or as one JSON object, such as {"quantity": "500"}.'


def read_parameters(code: str, arguments: Sequence[str], schemas: Callable[[], Schemas]) -> dict[str, Any]:
    """From options, or from one JSON object, which needs no schema; raises ValueError."""
    if not arguments:
        return {}
    return (
        _from_json(arguments[0])
        if len(arguments) == 1 and arguments[0][:2] != "--"
        else _from_options(code, arguments, schemas())
    )


def _from_json(text: str) -> dict[str, Any]:
    try:
        return dict(json.loads(text).items())
    except (ValueError, AttributeError):
        raise ValueError(f"Write the parameters {_FORMS}") from None


def _from_options(code: str, arguments: Sequence[str], kinds: Schemas) -> dict[str, Any]:
    """A list is given by repeating its option, or with commas; a boolean without a value is true."""
    if code not in kinds:
        raise ValueError(f"{code} is not a kind of rule; these are: {', '.join(kinds)}.")
    schemas = kinds[code]
    values: dict[str, Any] = {}
    remaining = list(arguments)
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


def _value(schema: Mapping[str, Any], text: str) -> object:
    """The text as the schema's type; text that does not fit is sent as it is, and the platform refuses it."""
    if schema["type"] == "integer":
        try:
            return int(text)
        except ValueError:
            return text
    if schema["type"] == "boolean":
        return _BOOLEANS.get(text.lower(), text)
    return text.upper() if text.upper() in schema.get("enum", ()) else text
