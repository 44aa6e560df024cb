"""Marks text that people and brokers wrote, so that an agent can tell it from what Openbell states."""

import re
from decimal import Decimal
from typing import Any, Final

import msgspec

TEXT_MAX: Final = 300
# Of Openbell's own sentences.
SENTENCE_MAX: Final = 1000
UNTRUSTED: Final = "untrusted_text"
# Fields with text of people, programs or brokers, whatever it looks like.
_FOREIGN: Final = frozenset(
    {"broker_code", "broker_text", "client_order_id", "client_reference_id", "manual_reason", "name", "notices"}
)
# `reason` is text in rules and switches, and an object with a code of ours in actions.
_FOREIGN_IF_TEXT: Final = frozenset({"reason"})
# Sentences of Openbell.
_OURS: Final = frozenset({"settles_by", "would_pass"})
# Other text is believed only in the form of a code, an id, a number or a time.
_PLAIN: Final = re.compile(r"[A-Za-z0-9._:+/=\-]{0,80}", re.ASCII)
# The caller has one organization, and needs no id of it.
_LEFT_OUT: Final = frozenset({"organization_id", "receipt_hash", "resume_token"})


def marked(record: Any) -> Any:  # noqa: ANN401 - any record of the library
    """The record as JSON; text that Openbell did not write is an object {"untrusted_text": …}."""
    return _marked("", msgspec.to_builtins(record, builtin_types=(Decimal,)))


def plain(text: str, length: int = SENTENCE_MAX) -> str:
    """Without control characters, and not longer than `length`."""
    return "".join(sign if sign.isprintable() else " " for sign in text[:length])


def is_plain(text: str) -> bool:
    """Whether it has the form of a code, an id, a number or a time, which no instruction has."""
    return _PLAIN.fullmatch(text) is not None


def untrusted(text: str) -> dict[str, str]:
    return {UNTRUSTED: plain(text, TEXT_MAX)}


def _marked(name: str, value: Any) -> Any:  # noqa: ANN401 - any JSON
    match value:
        case dict():
            return {
                key if is_plain(key) else plain(key, TEXT_MAX): _marked(key, each)
                for key, each in value.items()
                if key not in _LEFT_OUT and each is not None
            }
        case list() | tuple():
            return [_marked(name, each) for each in value]
        case Decimal():
            return format(value, "f")
        case str() if name in _OURS:
            return plain(value)
        case str() if name in _FOREIGN or name in _FOREIGN_IF_TEXT or not is_plain(value):
            return untrusted(value)
    return value
