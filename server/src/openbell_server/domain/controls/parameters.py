"""The parameters of a kind of rule: one table decodes them, writes them, and describes them as JSON schema."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import time
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.orders.order_terms import DECIMAL_PATTERN, exact_decimal

REFERENCE_AGE_MILLIS: Final = 15_000
_DECIMAL = re.compile(DECIMAL_PATTERN, re.ASCII)
_CURRENCY_PATTERN: Final = "^[A-Z]{3,5}$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How one parameter is written in JSON."""

    # What an error shows in the place of the value, and what the value must be.
    shown: str
    must_be: str
    schema: Mapping[str, Any]
    # From the JSON value and its pointer; raises ValueError, or InvalidCommand with a text of its own.
    read: Callable[[Any, str], Any]


@dataclass(frozen=True)
class Shape:
    """The parameters of a kind. One that is left out has the default of the kind's own type."""

    make: Callable[..., Any]
    forms: Mapping[str, Form]
    # At least one of these must be there.
    any_of: tuple[str, ...] = ()

    def decode(self, given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - the kind's own type
        if not self.required <= set(given) <= set(self.forms) or (self.any_of and not {*self.any_of} & set(given)):
            raise InvalidCommand("/parameters", f"must be {self}")
        return self.make(**{name: self._read(name, value) for name, value in given.items()})

    def encode(self, parameters: object) -> dict[str, Any]:
        """The parameters as JSON, with those that were left out and have a default."""
        values = {name: getattr(parameters, name) for name in self.forms}
        return {name: _plain(value) for name, value in values.items() if value is not None}

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                name: {**form.schema, **({"default": self.defaults[name]} if name in self.defaults else {})}
                for name, form in self.forms.items()
            },
            "required": [name for name in self.forms if name in self.required],
            **({"anyOf": [{"required": [name]} for name in self.any_of]} if self.any_of else {}),
            "additionalProperties": False,
        }

    @cached_property
    def required(self) -> frozenset[str]:
        return frozenset(each.name for each in self._fields if each.default is MISSING)

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """By name; a parameter that has no effect if it is left out has none."""
        known = {each.name: each.default for each in self._fields}
        return {name: _plain(value) for name, value in known.items() if value is not MISSING and value is not None}

    def __str__(self) -> str:
        shown = (f'"{n}"{"" if n in self.required else "?"}: {form.shown}' for n, form in self.forms.items())
        least = f", at least one of {', '.join(self.any_of)}" if self.any_of else ""
        defaults = ", ".join(f"{name} {json.dumps(value)}" for name, value in self.defaults.items())
        return f"{{{', '.join(shown)}}}{least}{f'; if it is left out: {defaults}' if defaults else ''}"

    @property
    def _fields(self) -> list[Any]:
        return [each for each in fields(self.make) if each.name in self.forms]  # type: ignore[arg-type]  # a dataclass

    def _read(self, name: str, value: object) -> object:
        form, pointer = self.forms[name], f"/parameters/{name}"
        try:
            return form.read(value, pointer)
        except ValueError:
            raise InvalidCommand(pointer, f"must be {form.must_be}; the parameters are {self}") from None


def matching(value: object, pattern: re.Pattern[str]) -> str:
    """The text, if it matches the whole pattern; raises ValueError."""
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError
    return value


def texts(value: object, least: int, most: int) -> list[str]:
    if not isinstance(value, list) or not least <= len(value) <= most or not all(isinstance(it, str) for it in value):
        raise ValueError
    return list(value)


def whole(least: int, most: int) -> Form:
    """A whole number in a range, both ends included."""

    def read(value: object, _: str) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError
        return value

    return Form(
        shown=f"{least} to {most}",
        must_be=f"a whole number from {least} to {most}",
        schema={"type": "integer", "minimum": least, "maximum": most},
        read=read,
    )


def percent(most: int = 10_000) -> Form:
    def read(value: object, _: str) -> Decimal:
        number = Decimal(matching(value, _DECIMAL))
        if number > most:
            raise ValueError
        return number

    must_be = f"a decimal string from 0 to {most}"
    schema = {"type": "string", "pattern": DECIMAL_PATTERN, "description": must_be}
    return Form(shown='"…"', must_be=must_be, schema=schema, read=read)


def choice(kind: type[StrEnum]) -> Form:
    return named([*kind], kind)


def named(names: list[str], make: Callable[[str], Any] = str) -> Form:
    """One of some names."""

    def read(value: object, _: str) -> object:
        if not isinstance(value, str) or value not in names:
            raise ValueError
        return make(value)

    return Form(
        shown=" | ".join(f'"{name}"' for name in names),
        must_be=f"one of {', '.join(names)}",
        schema={"type": "string", "enum": [str(name) for name in names]},
        read=read,
    )


def some_of(kind: type[StrEnum], make: Callable[[list[Any]], Any]) -> Form:
    """A list of names, at least one."""

    def read(value: object, _: str) -> object:
        # An unknown name raises ValueError too.
        return make([kind(text) for text in texts(value, 1, len(kind))])

    one = choice(kind)
    return Form(
        shown=f"[{one.shown}, …]",
        must_be=f"a list of {', '.join(kind)}, at least one",
        schema={"type": "array", "items": one.schema, "minItems": 1, "maxItems": len(kind)},
        read=read,
    )


def _flag(value: object, _: str) -> bool:
    if type(value) is not bool:
        raise ValueError
    return value


def _number(value: object, pointer: str) -> Decimal:
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004 - one error for every wrong value
    return exact_decimal(value, pointer)


def _plain(value: object) -> Any:  # noqa: ANN401 - a JSON value
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, frozenset | tuple):
        return sorted(value) if isinstance(value, frozenset) else list(value)
    return value.isoformat() if isinstance(value, time) else value


DECIMAL: Final = Form(
    shown='"…"',
    must_be="a decimal string",
    schema={"type": "string", "pattern": DECIMAL_PATTERN, "description": "a decimal string above 0"},
    read=_number,
)
AMOUNT: Final = Form(
    shown='"…"',
    must_be="a decimal string",
    schema={"type": "string", "pattern": DECIMAL_PATTERN, "description": "a decimal string, at least 0"},
    read=lambda value, _: Decimal(matching(value, _DECIMAL)),
)
FLAG: Final = Form(shown="true | false", must_be="true or false", schema={"type": "boolean"}, read=_flag)
CURRENCY: Final = Form(
    shown='"USD"',
    must_be="the capital letters of a currency, such as USD",
    schema={"type": "string", "pattern": _CURRENCY_PATTERN},
    read=lambda value, _: matching(value, re.compile(_CURRENCY_PATTERN, re.ASCII)),
)
# How old a reference price may be.
REFERENCE_AGE: Final = whole(1, 3_600_000)
