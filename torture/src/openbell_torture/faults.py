"""Presets of faults, and which request has which."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from openbell_exchange.faults import FAULT_NAMES, Faults, InvalidFaults, Oddity, parse_settings, plan_of


class EndpointFault(StrEnum):
    """What goes wrong with any request, in addition to the faults of commands; the values are the names of rates."""

    # A look-up without an answer, and one that is answered 504.
    READ_RESET = "read_reset"
    READ_ERROR = "read_error"
    # The broker does not find an order for the first look-ups after it accepted it.
    UNSEEN = "unseen"
    # A command is not done, every connection is cut, and so are the next requests.
    RESTART = "restart"
    # An order fills some requests after it was accepted.
    LATE_FILL = "late_fill"


# The paper broker has these, this simulator does not.
_IGNORED: Final = frozenset(
    {Oddity.REORDER_FILLS, Oddity.BUST, Oddity.CORRECT, "find_lag_ms", "late_ms", "mute_ms", "by_terms"}
)
_COMMAND_NAMES: Final = tuple(str(name) for name in FAULT_NAMES if name not in _IGNORED)
NAMES: Final = (*_COMMAND_NAMES, *(fault.value for fault in EndpointFault))

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
_LOOK_UPS: Final = {"read_reset": 0.15, "read_error": 0.15, "unseen": 0.3, "accept_then_reset": 0.2}
_RESTARTS: Final = {"restart": 0.15, "accept_then_reset": 0.1}
_LATE: Final = {"late_fill": 0.6, "accept_then_reset": 0.1}
PRESETS: Final[Mapping[str, Mapping[str, float]]] = MappingProxyType(
    {
        "none": {},
        # The broker has the order, the bot has no answer.
        "lost-answers": _LOST,
        # The broker has the order, and every connection is cut: the stream too.
        "stream-cuts": _CUTS,
        # Look-ups fail, or do not find the order yet.
        "lost-look-ups": _LOOK_UPS,
        # The endpoint goes away and comes back.
        "restarts": _RESTARTS,
        # Orders fill some time after they were accepted.
        "late-fills": _LATE,
        # Too many requests: nothing was done.
        "busy": _BUSY,
        # The stream repeats the updates of an order.
        "repeated-fills": _FEED,
        # Commands that are answered after a time-out of the bot, or just before it.
        "slow": _SLOW,
        # A cancel and a fill meet.
        "cancel-races": _RACES,
        # All of it.
        "bad-friday": {
            name: rate / 2
            for name, rate in (_LOOK_UPS | _RESTARTS | _LATE | _LOST | _CUTS | _BUSY | _FEED | _RACES).items()
        },
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    commands: Faults
    endpoint: Mapping[EndpointFault, float]

    @property
    def seed(self) -> int:
        return self.commands.seed

    def has(self, fault: EndpointFault, key: str) -> bool:
        """Whether this happens to a request or an order; key is its ordinal."""
        rate = self.endpoint.get(fault, 0)
        return rate > 0 and self.commands.chance(fault, key) < rate


def plan(text: str, seed: int) -> Plan:
    """A preset by its name, or `name=value,…`; raises InvalidFaults."""
    if text in PRESETS:
        return plan_with(seed, PRESETS[text])
    if "=" not in text:
        raise InvalidFaults("", f"there is no plan {text!r}; there are {', '.join(PRESETS)}, and name=rate,…")
    return plan_with(seed, parse_settings(text))


def plan_with(seed: int, settings: Mapping[str, float]) -> Plan:
    endpoint = {fault: settings[fault] for fault in EndpointFault if fault in settings}
    for name, value in settings.items():
        if name == "seed":
            raise InvalidFaults(name, "give it with --seed")
        if name not in NAMES:
            raise InvalidFaults(name, f"there is no such fault; there are {', '.join(NAMES)}")
        if name in endpoint and not 0 <= value <= 1:
            raise InvalidFaults(name, "must be a rate from 0 to 1")
    commands = {name: value for name, value in settings.items() if name not in endpoint}
    return Plan(commands=plan_of(seed, commands), endpoint=endpoint)
