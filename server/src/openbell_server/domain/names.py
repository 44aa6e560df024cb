"""Checks of names and reasons that people enter."""

from typing import Final

from openbell_server.domain.errors import InvalidCommand

NAME_LENGTH_MAX: Final = 128
REASON_LENGTH_MAX: Final = 500


def check_name(name: str) -> None:
    if not name.strip() or len(name) > NAME_LENGTH_MAX or not name.isprintable():
        raise InvalidCommand("name", f"must be 1 to {NAME_LENGTH_MAX} printable characters, not only spaces")


def check_reason(field: str, reason: str | None) -> None:
    if reason is not None and not (1 <= len(reason) <= REASON_LENGTH_MAX and reason.isprintable()):
        raise InvalidCommand(field, f"must be 1 to {REASON_LENGTH_MAX} printable characters")
