"""Percentiles of latencies that were counted in steps."""

from datetime import UTC, datetime

import pytest

from openbell_server.domain.orders.intent_statistics import IntentStatistics
from openbell_server.domain.orders.intents import ActionType


def statistics(latency_steps: dict[int, int]) -> IntentStatistics:
    noon = datetime(2026, 1, 5, 12, tzinfo=UTC)
    return IntentStatistics(
        since=noon,
        until=noon,
        actions=dict.fromkeys(ActionType, 7),
        sides={},
        symbols=[],
        control_refusals=0,
        outcomes={},
        latency_steps=latency_steps,
    )


@pytest.mark.parametrize(
    ("steps", "percent", "milliseconds"),
    [
        ({}, 50, None),
        ({0: 1}, 50, 1.0),
        ({4: 1}, 99, 2.0),
        ({40: 1, 4: 1}, 50, 2.0),
        ({40: 1, 4: 1}, 51, 1024.0),
        ({0: 94, 8: 5, 12: 1}, 94, 1.0),
        ({0: 94, 8: 5, 12: 1}, 95, 4.0),
        ({0: 94, 8: 5, 12: 1}, 99, 4.0),
        ({0: 94, 8: 5, 12: 1}, 100, 8.0),
        ({1: 1}, 50, 1.2),
    ],
    ids=str,
)
def test_a_percentile_is_the_end_of_the_first_step_that_reaches_it(
    steps: dict[int, int], percent: int, milliseconds: float | None
) -> None:
    assert statistics(steps).dispatch_latency_millis(percent) == milliseconds


def test_there_are_as_many_intents_as_creates() -> None:
    assert statistics({}).intents == 7
