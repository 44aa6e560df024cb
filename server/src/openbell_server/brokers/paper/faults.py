"""Seeded misbehaviour: which command meets which fault follows from its client order id, never from timing or order."""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Fault(StrEnum):
    """What goes wrong with one command."""

    NONE = "none"
    # Nothing is done or recorded, and no reply comes.
    HANG = "hang"
    # Done and recorded, but no reply comes.
    DONE_THEN_HANG = "done_then_hang"
    # Done and recorded, then the connection is cut.
    DONE_THEN_RESET = "done_then_reset"
    # Done and recorded, then the reply is a 500.
    DONE_THEN_ERROR = "done_then_error"
    # Refused with a code.
    REFUSE = "refuse"


class CommandKind(StrEnum):
    """What a client can ask."""

    SUBMIT = "SUBMIT"
    REPLACE = "REPLACE"
    CANCEL = "CANCEL"
    SIGN_IN = "SIGN_IN"


_RATES: Final[dict[str, tuple[CommandKind, Fault]]] = {
    "hang": (CommandKind.SUBMIT, Fault.HANG),
    "accept_then_hang": (CommandKind.SUBMIT, Fault.DONE_THEN_HANG),
    "accept_then_reset": (CommandKind.SUBMIT, Fault.DONE_THEN_RESET),
    "error_500_after_accept": (CommandKind.SUBMIT, Fault.DONE_THEN_ERROR),
    "refuse": (CommandKind.SUBMIT, Fault.REFUSE),
    "replace_hang": (CommandKind.REPLACE, Fault.HANG),
    "replace_then_hang": (CommandKind.REPLACE, Fault.DONE_THEN_HANG),
    "replace_then_reset": (CommandKind.REPLACE, Fault.DONE_THEN_RESET),
    "error_500_after_replace": (CommandKind.REPLACE, Fault.DONE_THEN_ERROR),
    "replace_refuse": (CommandKind.REPLACE, Fault.REFUSE),
    "cancel_hang": (CommandKind.CANCEL, Fault.HANG),
    "cancel_then_hang": (CommandKind.CANCEL, Fault.DONE_THEN_HANG),
    "cancel_then_reset": (CommandKind.CANCEL, Fault.DONE_THEN_RESET),
    "error_500_after_cancel": (CommandKind.CANCEL, Fault.DONE_THEN_ERROR),
    "cancel_refuse": (CommandKind.CANCEL, Fault.REFUSE),
}
_MILLISECONDS_MAX: Final = 10_000


class InvalidFaults(ValueError):
    """The fault text cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """A plan of misbehaviour; the empty plan behaves."""

    seed: int = 0
    rates: tuple[tuple[CommandKind, Fault, float], ...] = ()
    slow_ms: int = 0
    find_lag_ms: int = 0

    def fault_of(self, kind: CommandKind, client_order_id: str, lost_before: int = 0) -> Fault:
        """The fault this command meets, each time it is sent; one that was lost on its way has another chance."""
        chance = self._chance(kind, client_order_id, *([str(lost_before)] if lost_before else []))
        for of_kind, fault, rate in self.rates:
            if of_kind is kind:
                if chance < rate:
                    return fault
                chance -= rate
        return Fault.NONE

    def delay_seconds(self, kind: CommandKind, client_order_id: str) -> float:
        """How long this command is on its way before the broker looks at it: between nothing and slow_ms."""
        return self.slow_ms / 1000 * self._chance("delay", kind, client_order_id)

    def _chance(self, *parts: str) -> float:
        """A number from 0 to just under 1, the same for the same seed and parts."""
        text = "\0".join((str(self.seed), *parts))
        return (int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 11) / (1 << 53)


def parse_faults(text: str) -> Faults:
    """Read `name=value,…`: seed, slow_ms and find_lag_ms are whole numbers, every other name is a rate from 0 to 1."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    settings: dict[str, str] = {}
    for word in words:
        name, equals, value = (part.strip() for part in word.partition("="))
        if not equals or name in settings:
            raise InvalidFaults(f"{word!r} must be name=value, each name once")
        settings[name] = value
    seed = _whole(settings, "seed", 2**63)
    slow_ms = _whole(settings, "slow_ms", _MILLISECONDS_MAX)
    find_lag_ms = _whole(settings, "find_lag_ms", _MILLISECONDS_MAX)
    # In the table's order, so that the order of the words changes nothing.
    rates = tuple((*_RATES[name], _rate(name, settings.pop(name))) for name in _RATES if name in settings)
    if settings:
        known = ", ".join(("seed", "slow_ms", "find_lag_ms", *_RATES))
        raise InvalidFaults(f"{', '.join(settings)}: no such fault; there are {known}")
    for kind in CommandKind:
        if sum(rate for of_kind, _, rate in rates if of_kind is kind) > 1:
            raise InvalidFaults(f"the rates of {kind} faults must not add up to more than 1")
    return Faults(seed=seed, rates=rates, slow_ms=slow_ms, find_lag_ms=find_lag_ms)


def _whole(settings: dict[str, str], name: str, highest: int) -> int:
    value = settings.pop(name, "0")
    if not (value.isascii() and value.isdigit() and len(value) < 20 and int(value) <= highest):
        raise InvalidFaults(f"{name}={value}: must be a whole number from 0 to {highest}")
    return int(value)


def _rate(name: str, value: str) -> float:
    try:
        rate = float(value)
    except ValueError:
        rate = -1
    if not 0 <= rate <= 1:
        raise InvalidFaults(f"{name}={value}: must be a rate from 0 to 1")
    return rate
