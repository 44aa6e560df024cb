"""Text from elsewhere, made safe to show on a terminal, and numbers as text."""

from decimal import Decimal


def printable(text: str) -> str:
    """The text without control characters: a broker's message must not be able to drive a terminal."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def plain(number: Decimal | None) -> str:
    """A number without an exponent; nothing where there is none."""
    return "" if number is None else format(number, "f")
