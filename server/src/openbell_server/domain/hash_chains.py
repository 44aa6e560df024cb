"""What every hash chain has in common: where it starts, and the bytes that are hashed."""

from typing import Final

CHAIN_START: Final = bytes(32)


def canonical_bytes(*fields: str | None) -> bytes:
    """Encode fields as length-prefixed UTF-8, None as a dash: different fields never give equal bytes."""
    parts = []
    for field in fields:
        if field is None:
            parts.append(b"-")
        else:
            encoded = field.encode()
            parts.append(b"%d:%b" % (len(encoded), encoded))
    return b"".join(parts)
