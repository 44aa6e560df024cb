"""Reads statistics of intents from counters that are updated when rows are written."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import PostgresStore
from openbell_server.domain.identifiers import AccountId, OrganizationId, Symbol
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.intent_statistics import SYMBOLS_MAX, IntentStatistics, TimeWindow
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderSide

_HOUR: Final = 3600.0
# The span of the counters that a window sums, and the window's length in seconds; its start is rounded down to a span.
_SPANS: Final = {
    TimeWindow.LAST_HOUR: ("MINUTE", _HOUR),
    TimeWindow.LAST_DAY: ("HOUR", 24 * _HOUR),
    TimeWindow.LAST_WEEK: ("HOUR", 7 * 24 * _HOUR),
    TimeWindow.LAST_MONTH: ("HOUR", 30 * 24 * _HOUR),
    TimeWindow.ALL: ("EVER", 0.0),
}
# Far more actions than a broker processes at once.
_IN_FLIGHT_MAX: Final = 10_000
_queries = named_queries.load("intent_statistics")


@dataclass(frozen=True, slots=True)
class PostgresStatisticsStore(PostgresStore):
    """Implements StatisticsStore."""

    async def count_intents(
        self, organization_id: OrganizationId, account_id: AccountId, window: TimeWindow
    ) -> IntentStatistics:
        span, seconds = _SPANS[window]
        found = await self._rows(
            _queries.count_intents,
            organization_id,
            account_id,
            span=span,
            window_seconds=seconds,
            in_flight_max=_IN_FLIGHT_MAX,
            symbols_max=SYMBOLS_MAX,
        )
        facts: dict[str, dict[str, int]] = defaultdict(dict)
        for row in found:
            facts[row["fact"]][row["name"]] = row["count"]
        return IntentStatistics(
            since=found[0]["since"],
            until=found[0]["until"],
            actions={kind: facts["ACTION_TYPE"].get(kind, 0) for kind in ActionType},
            sides={side: facts["ORDER_SIDE"].get(side, 0) for side in OrderSide},
            symbols=[(Symbol(symbol), count) for symbol, count in facts["SYMBOL"].items()],
            control_refusals=facts["REFUSAL"].get("", 0),
            outcomes={state: facts["STATE"].get(state, 0) for state in ActionState},
            latency_steps={int(step): count for step, count in facts["LATENCY_STEP"].items()},
        )
