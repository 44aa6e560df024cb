"""The response body of the statistics route."""

from collections.abc import Mapping

from msgspec import Struct

from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.intent_statistics import IntentStatistics
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderSide
from openbell_server.transport.rest.wire_types import Moment


class WindowBody(Struct, frozen=True):
    """The time range of the counted actions."""

    since: Moment
    until: Moment


class SymbolBody(Struct, frozen=True):
    """The number of actions of a symbol."""

    symbol: str
    actions: int


class LatencyBody(Struct, frozen=True):
    """Milliseconds from acceptance to sending; null if no action was sent."""

    p50: float | None
    p95: float | None
    p99: float | None


class StatisticsBody(Struct, frozen=True):
    """Counts of commands and outcomes in a time window."""

    window: WindowBody
    intents: int
    actions: Mapping[ActionType, int]
    symbols: list[SymbolBody]
    sides: Mapping[OrderSide, int]
    control_refusals: int
    outcomes: Mapping[ActionState, int]
    dispatch_latency_millis: LatencyBody


def statistics_body(statistics: IntentStatistics) -> StatisticsBody:
    return StatisticsBody(
        window=WindowBody(since=statistics.since, until=statistics.until),
        intents=statistics.intents,
        actions=statistics.actions,
        symbols=[SymbolBody(symbol, actions) for symbol, actions in statistics.symbols],
        sides=statistics.sides,
        control_refusals=statistics.control_refusals,
        outcomes=statistics.outcomes,
        dispatch_latency_millis=LatencyBody(*(statistics.dispatch_latency_millis(percent) for percent in (50, 95, 99))),
    )
