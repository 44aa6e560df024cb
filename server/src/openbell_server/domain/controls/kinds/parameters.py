"""Strict decoding of rule parameters; every error shows the expected shape."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, TypeVar

from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.orders.order_terms import DECIMAL_PATTERN, exact_decimal

REFERENCE_AGE_MILLIS: Final = 15_000
REFERENCE_AGE_MILLIS_MAX: Final = 3_600_000
_PERCENT_MAX: Final = Decimal(10_000)
_NOT_NEGATIVE = re.compile(DECIMAL_PATTERN, re.ASCII)
_CURRENCY = re.compile(r"[A-Z]{3,5}", re.ASCII)

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of one rule, and the expected shape for error messages."""

    given: Mapping[str, Any]
    shape: str

    def only(self, required: set[str], optional: set[str] | frozenset[str] = frozenset()) -> "Parameters":
        """Itself, if all required and no unknown names are present; raises InvalidCommand otherwise."""
        if not required <= set(self.given) <= required | optional:
            raise self.refusal()
        return self

    def refusal(self, name: str | None = None, rule: str | None = None) -> InvalidCommand:
        if name is None or rule is None:
            return InvalidCommand("/parameters", f"must be {self.shape}")
        return InvalidCommand(f"/parameters/{name}", f"must be {rule}; the parameters are {self.shape}")

    def decimal(self, name: str) -> Decimal:
        """A number above zero."""
        value = self.given[name]
        if not isinstance(value, str):
            raise self.refusal(name, "a decimal string")
        return exact_decimal(value, f"/parameters/{name}")

    def percent(self, name: str, most: Decimal = _PERCENT_MAX) -> Decimal:
        value = self.given[name]
        if not isinstance(value, str) or not _NOT_NEGATIVE.fullmatch(value) or Decimal(value) > most:
            raise self.refusal(name, f"a decimal string from 0 to {most}")
        return Decimal(value)

    def whole(self, name: str, least: int, most: int) -> int:
        """A whole number in a range, both ends included."""
        value = self.given[name]
        if type(value) is not int or not least <= value <= most:
            raise self.refusal(name, f"a whole number from {least} to {most}")
        return value

    def flag(self, name: str) -> bool:
        value = self.given[name]
        if type(value) is not bool:
            raise self.refusal(name, "true or false")
        return value

    def one_of(self, name: str, choices: type[E]) -> E:
        value = self.given[name]
        if not isinstance(value, str) or value not in set(choices):
            raise self.refusal(name, f"one of {', '.join(choices)}")
        return choices(value)

    def currency(self, name: str) -> str:
        value = self.given[name]
        if not isinstance(value, str) or not _CURRENCY.fullmatch(value):
            raise self.refusal(name, "the capital letters of a currency, such as USD")
        return value

    def texts(self, name: str, least: int, most: int) -> list[str]:
        value = self.given[name]
        if (
            not isinstance(value, list)
            or not least <= len(value) <= most
            or not all(isinstance(it, str) for it in value)
        ):
            raise self.refusal(name, f"a list of {least} to {most} strings")
        return list(value)

    def optional(self, name: str, read: Callable[[str], T], default: T) -> T:
        return read(name) if name in self.given else default

    def reference_age(self) -> int:
        """How old a reference price may be, in milliseconds."""
        name = "ref_max_age_millis"
        return self.optional(name, lambda _: self.whole(name, 1, REFERENCE_AGE_MILLIS_MAX), REFERENCE_AGE_MILLIS)
