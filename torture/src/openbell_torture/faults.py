"""Presets of faults, and which request has which."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from openbell_exchange.faults import Faults, InvalidFaults, parse_faults, plan_of

_LOST: Final = {
    "accept_then_hang": 0.15,
    "accept_then_reset": 0.15,
    "error_500_after_accept": 0.1,
    "hang": 0.1,
    "cancel_then_reset": 0.2,
    "cancel_hang": 0.1,
    "replace_then_reset": 0.2,
}
_BUSY: Final = {"too_many_requests": 0.2, "too_many_requests_until": 0.1, "too_many_cancels": 0.2}
_CUTS: Final = {"session_reset": 0.3, "fill_before_ack": 0.2}
_FEED: Final = {"duplicate_fills": 0.3}
_SLOW: Final = {"slow_ms": 1500}
_RACES: Final = {"fill_after_cancel": 0.5, "fill_before_ack": 0.2}
PRESETS: Final[Mapping[str, Mapping[str, float]]] = MappingProxyType(
    {
        "none": {},
        # The broker has the order, the bot has no answer.
        "lost-answers": _LOST,
        # The broker has the order, and every connection is cut: the stream too.
        "stream-cuts": _CUTS,
        # Too many requests: nothing was done.
        "busy": _BUSY,
        # The stream repeats the updates of an order.
        "repeated-fills": _FEED,
        # Commands that are answered after a time-out of the bot, or just before it.
        "slow": _SLOW,
        # A cancel and a fill meet.
        "cancel-races": _RACES,
        # All of it.
        "bad-friday": {name: rate / 2 for name, rate in (_LOST | _CUTS | _BUSY | _FEED | _RACES).items()},
    }
)


def plan(text: str, seed: int) -> Faults:
    """A preset by its name, or `name=value,…`; raises InvalidFaults."""
    if text in PRESETS:
        return plan_of(seed, PRESETS[text])
    if "=" not in text:
        raise InvalidFaults("", f"there is no plan {text!r}; there are {', '.join(PRESETS)}, and name=rate,…")
    return replace(parse_faults(text), seed=seed)
