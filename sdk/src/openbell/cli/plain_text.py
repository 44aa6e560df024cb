"""Text that is safe to show on a terminal, and numbers and times as text."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeVar

import typer

Number = TypeVar("Number")


def printable(text: str) -> str:
    """Replace control characters, so that a broker's message cannot control the terminal."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def plain(number: Decimal | None) -> str:
    """A number without an exponent; empty for None."""
    return "" if number is None else format(number, "f")


def named_number(entry: str, number: Callable[[str], Number], example: str) -> tuple[str, Number]:
    """The name and the number of an argument such as `example`."""
    name, _, value = entry.partition("=")
    try:
        return name, number(value)
    except (ValueError, ArithmeticError):
        raise typer.BadParameter(f"{entry} must be a name and a number, such as {example}") from None


def time_text(moment: datetime | None) -> str:
    """A time in UTC, to the second; empty for None."""
    return "" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
