"""Seeded faults: a command's fault depends only on the seed and its id or its terms, never on timing."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Fault(StrEnum):
    """What goes wrong with one command; "done" means executed and recorded."""

    NONE = "none"
    # Not done, and no reply.
    HANG = "hang"
    # Done, but no reply.
    DONE_THEN_HANG = "done_then_hang"
    # Done, then the connection is cut.
    DONE_THEN_RESET = "done_then_reset"
    # Done, then the reply is a 500.
    DONE_THEN_ERROR = "done_then_error"
    # Done, then the reply is a refusal with an unknown code.
    DONE_THEN_DENIED = "done_then_denied"
    # Done, and the feed reports it before the reply.
    DONE_THEN_WAIT = "done_then_wait"
    # Done, then every feed and this connection are cut.
    DONE_THEN_ALL_RESET = "done_then_all_reset"
    # No reply, and done later.
    DONE_LATE = "done_late"
    REFUSE = "refuse"
    # Not done: rate limited, without and with a Retry-After header.
    TOO_MANY = "too_many"
    TOO_MANY_UNTIL = "too_many_until"


class CommandKind(StrEnum):
    SUBMIT = "SUBMIT"
    REPLACE = "REPLACE"
    CANCEL = "CANCEL"
    SIGN_IN = "SIGN_IN"


class Oddity(StrEnum):
    """Faults of an accepted order; each has its own probability."""

    # The feed reports each of its executions twice.
    DUPLICATE_FILLS = "duplicate_fills"
    # The feed reports its updates in reverse order.
    REORDER_FILLS = "reorder_fills"
    # After the cancel was reported, the rest of it fills.
    FILL_AFTER_CANCEL = "fill_after_cancel"
    # Its first execution is busted, or its price is corrected.
    BUST = "bust"
    CORRECT = "correct"


_RATES: Final[dict[str, tuple[CommandKind, Fault]]] = {
    "hang": (CommandKind.SUBMIT, Fault.HANG),
    "accept_then_hang": (CommandKind.SUBMIT, Fault.DONE_THEN_HANG),
    "accept_then_reset": (CommandKind.SUBMIT, Fault.DONE_THEN_RESET),
    "error_500_after_accept": (CommandKind.SUBMIT, Fault.DONE_THEN_ERROR),
    "refuse": (CommandKind.SUBMIT, Fault.REFUSE),
    "refused_but_placed": (CommandKind.SUBMIT, Fault.DONE_THEN_DENIED),
    "accept_late": (CommandKind.SUBMIT, Fault.DONE_LATE),
    "fill_before_ack": (CommandKind.SUBMIT, Fault.DONE_THEN_WAIT),
    "session_reset": (CommandKind.SUBMIT, Fault.DONE_THEN_ALL_RESET),
    "too_many_requests": (CommandKind.SUBMIT, Fault.TOO_MANY),
    "too_many_requests_until": (CommandKind.SUBMIT, Fault.TOO_MANY_UNTIL),
    "replace_hang": (CommandKind.REPLACE, Fault.HANG),
    "replace_then_hang": (CommandKind.REPLACE, Fault.DONE_THEN_HANG),
    "replace_then_reset": (CommandKind.REPLACE, Fault.DONE_THEN_RESET),
    "error_500_after_replace": (CommandKind.REPLACE, Fault.DONE_THEN_ERROR),
    "replace_refuse": (CommandKind.REPLACE, Fault.REFUSE),
    "refused_but_replaced": (CommandKind.REPLACE, Fault.DONE_THEN_DENIED),
    "replace_late": (CommandKind.REPLACE, Fault.DONE_LATE),
    "too_many_replaces": (CommandKind.REPLACE, Fault.TOO_MANY),
    "cancel_hang": (CommandKind.CANCEL, Fault.HANG),
    "cancel_then_hang": (CommandKind.CANCEL, Fault.DONE_THEN_HANG),
    "cancel_then_reset": (CommandKind.CANCEL, Fault.DONE_THEN_RESET),
    "error_500_after_cancel": (CommandKind.CANCEL, Fault.DONE_THEN_ERROR),
    "cancel_refuse": (CommandKind.CANCEL, Fault.REFUSE),
    "refused_but_canceled": (CommandKind.CANCEL, Fault.DONE_THEN_DENIED),
    "cancel_late": (CommandKind.CANCEL, Fault.DONE_LATE),
    "too_many_cancels": (CommandKind.CANCEL, Fault.TOO_MANY),
}
# Whole numbers, with the maximum of each: milliseconds, and one that is 0 or 1.
_NUMBERS: Final = {"slow_ms": 10_000, "find_lag_ms": 10_000, "late_ms": 600_000, "mute_ms": 600_000, "by_terms": 1}
_LATE_MS: Final = 1_000
SEED_MAX: Final = 2**63 - 1
FAULT_NAMES: Final = (*_RATES, *Oddity, *_NUMBERS)


class InvalidFaults(ValueError):
    """The fault plan is invalid; name is the invalid setting, or empty."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}" if name else problem)
        self.name = name
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """A fault plan; the default has no faults."""

    seed: int = 0
    rates: tuple[tuple[CommandKind, Fault, float], ...] = ()
    oddities: Mapping[Oddity, float] = field(default_factory=dict)
    slow_ms: int = 0
    find_lag_ms: int = 0
    # Delay of everything that happens late.
    late_ms: int = _LATE_MS
    # For this long after the plan was set, the feed drops the account's updates.
    mute_ms: int = 0
    # 1: the terms of an order decide its fault, not its client order id.
    by_terms: int = 0

    def fault_of(self, kind: CommandKind, key: str, lost_before: int = 0) -> Fault:
        """The fault of this command, the same each time it is sent; lost_before gives a lost command a new chance."""
        if not self.rates:
            return Fault.NONE
        chance = self.chance(kind, key, *([str(lost_before)] if lost_before else []))
        for of_kind, fault, rate in self.rates:
            if of_kind is kind:
                if chance < rate:
                    return fault
                chance -= rate
        return Fault.NONE

    def is_odd(self, oddity: Oddity, order_id: str) -> bool:
        """Whether this happens to an order, identified by its client order id or else by the broker's."""
        rate = self.oddities.get(oddity, 0)
        return rate > 0 and self.chance(oddity, order_id) < rate

    def delay_seconds(self, kind: CommandKind, key: str) -> float:
        """Delay before the broker processes the command: from 0 to slow_ms."""
        return self.slow_ms / 1000 * self.chance("delay", kind, key) if self.slow_ms else 0

    def chance(self, *parts: str) -> float:
        """A number from 0 to below 1, the same for the same seed and parts."""
        text = "\0".join((str(self.seed), *parts))
        return (int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 11) / (1 << 53)


def plan_of(seed: int, settings: Mapping[str, float]) -> Faults:
    """Build a plan: times and by_terms are whole numbers, every other value is a rate from 0 to 1."""
    if not 0 <= seed <= SEED_MAX:
        raise InvalidFaults("seed", f"must be a whole number from 0 to {SEED_MAX}")
    for name, value in settings.items():
        if name in _NUMBERS:
            if not (0 <= value <= _NUMBERS[name] and value == int(value)):
                raise InvalidFaults(name, f"must be a whole number from 0 to {_NUMBERS[name]}")
        elif name not in FAULT_NAMES:
            raise InvalidFaults(name, f"there is no such fault; there are {', '.join(FAULT_NAMES)}")
        elif not 0 <= value <= 1:
            raise InvalidFaults(name, "must be a rate from 0 to 1")
    # In the order of the table, so that the order of the settings does not matter.
    rates = tuple((*_RATES[name], float(settings[name])) for name in _RATES if name in settings)
    for kind in CommandKind:
        if sum(rate for of_kind, _, rate in rates if of_kind is kind) > 1:
            raise InvalidFaults("", f"the rates of {kind} faults must not add up to more than 1")
    oddities = {oddity: float(settings[oddity]) for oddity in Oddity if oddity in settings}
    numbers = {name: int(settings[name]) for name in _NUMBERS if name in settings}
    return Faults(seed=seed, rates=rates, oddities=oddities, **numbers)


def parse_faults(text: str) -> Faults:
    """Parse `name=value,…`, including the seed."""
    settings = parse_settings(text)
    return plan_of(int(settings.pop("seed", 0)), settings)


def parse_settings(text: str) -> dict[str, float]:
    """Parse `name=value,…`; the names are not checked."""
    items = [item.strip() for item in text.split(",") if item.strip()]
    settings: dict[str, float] = {}
    for item in items:
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or name in settings:
            raise InvalidFaults("", f"{item!r} must be name=value, each name once")
        try:
            settings[name] = int(value) if name == "seed" else float(value)
        except ValueError as trouble:
            raise InvalidFaults(name, f"{value!r} is no number") from trouble
    return settings
