"""Counts of an account's commands in a time window, and their outcomes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderSide

SYMBOLS_MAX: Final = 50
# Latencies are counted in logarithmic steps to bound their number: four steps double a latency, step 0 ends at 1 ms.
STEPS_PER_DOUBLING: Final = 4


class TimeWindow(StrEnum):
    """The actions to count: those recorded since the start of the window."""

    LAST_HOUR = "last_hour"
    LAST_DAY = "last_day"
    LAST_WEEK = "last_week"
    LAST_MONTH = "last_month"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentStatistics:
    """The actions recorded from `since` until `until`; symbols are the most frequent ones first."""

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
        return self.actions[ActionType.CREATE]

    def dispatch_latency_millis(self, percent: int) -> float | None:
        """The percentile of the dispatch latency, rounded up to the end of its step; None if none was sent."""
        left = -(-sum(self.latency_steps.values()) * percent // 100)
        for step, count in sorted(self.latency_steps.items()):
            left -= count
            if left <= 0:
                return round(2 ** (step / STEPS_PER_DOUBLING), 1)
        return None
