"""Counts of what was asked of an account in a time window, and what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from openbell_server.domain.action_lifecycle import ActionState
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.intents import ActionType
from openbell_server.domain.orders import OrderSide

SYMBOLS_MAX: Final = 50
# Latencies are counted in steps, to bound their number: four steps double a latency, and step 0 ends at a millisecond.
STEPS_PER_DOUBLING: Final = 4


class TimeWindow(StrEnum):
    """Which actions are counted: those recorded since then."""

    LAST_HOUR = "last_hour"
    LAST_DAY = "last_day"
    LAST_WEEK = "last_week"
    LAST_MONTH = "last_month"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentStatistics:
    """The actions recorded from one moment to another; symbols are the most frequent ones, most frequent first."""

    since: datetime
    until: datetime
    actions: Mapping[ActionType, int]
    sides: Mapping[OrderSide, int]
    symbols: Sequence[tuple[Symbol, int]]
    control_refusals: int
    outcomes: Mapping[ActionState, int]
    latency_steps: Mapping[int, int]

    @property
    def intents(self) -> int:
        """Each begins with a CREATE."""
        return self.actions[ActionType.CREATE]

    def dispatch_latency_ms(self, percent: int) -> float | None:
        """What that many of a hundred sent actions waited at most, as the end of a step; None if none was sent."""
        left = -(-sum(self.latency_steps.values()) * percent // 100)
        for step, count in sorted(self.latency_steps.items()):
            left -= count
            if left <= 0:
                return round(2 ** (step / STEPS_PER_DOUBLING), 1)
        return None
