"""Text from elsewhere, made safe to show on a terminal."""


def printable(text: str) -> str:
    """The text without control characters: a broker's message must not be able to drive a terminal."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)
