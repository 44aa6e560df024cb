"""The response shape of the statistics route."""

from collections.abc import Mapping

from msgspec import Struct

from openbell_server.domain.action_lifecycle import ActionState
from openbell_server.domain.intent_statistics import IntentStatistics
from openbell_server.domain.intents import ActionType
from openbell_server.domain.orders import OrderSide
from openbell_server.transport.rest.wire_types import Moment


class WindowBody(Struct, frozen=True, rename={"since": "from", "until": "to"}):
    """Which actions are counted: those recorded from one moment to another."""

    since: Moment
    until: Moment


class SymbolBody(Struct, frozen=True):
    """How many actions a symbol had."""

    symbol: str
    actions: int


class LatencyBody(Struct, frozen=True):
    """How long actions waited until they were sent, in milliseconds; null where none was."""

    p50: float | None
    p95: float | None
    p99: float | None


class StatisticsBody(Struct, frozen=True):
    """What was asked in a window, and what came of it."""

    window: WindowBody
    intents: int
    actions: Mapping[ActionType, int]
    symbols: list[SymbolBody]
    sides: Mapping[OrderSide, int]
    control_refusals: int
    outcomes: Mapping[ActionState, int]
    dispatch_latency_ms: LatencyBody


def statistics_body(statistics: IntentStatistics) -> StatisticsBody:
    """Statistics as callers see them."""
    return StatisticsBody(
        window=WindowBody(since=statistics.since, until=statistics.until),
        intents=statistics.intents,
        actions=statistics.actions,
        symbols=[SymbolBody(symbol, actions) for symbol, actions in statistics.symbols],
        sides=statistics.sides,
        control_refusals=statistics.control_refusals,
        outcomes=statistics.outcomes,
        dispatch_latency_ms=LatencyBody(*(statistics.dispatch_latency_ms(percent) for percent in (50, 95, 99))),
    )
