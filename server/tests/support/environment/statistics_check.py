"""Whether the counts of intents say what the tables say."""

import asyncpg

from openbell_server.adapters.postgres.connection import Pool

_MISCOUNTED = """
with facts as (
    select account_id, created_at as moment, 'ACTION' as dimension,
        concat_ws(' ', symbol, order_side, action_type) as value
    from intent_actions
    union all
    select account_id, queued_at, 'OUTCOME', outcome_value(state, queued_at, send_started_at)
    from action_states where settled_at is not null
    union all
    select account_id, created_at, 'REFUSAL', '' from receipts where verdict = 'REFUSED'
),
expected as (
    select f.account_id, s.span, s.starts_at, f.dimension, f.value, count(*) as expected
    from facts f cross join lateral spans_of(f.moment) s group by 1, 2, 3, 4, 5
),
counted as (
    select account_id, span, starts_at, dimension, value, sum(count) as count
    from counted_intents group by 1, 2, 3, 4, 5
)
select account_id, span, starts_at, dimension, value, e.expected, c.count
from expected e full join counted c using (account_id, span, starts_at, dimension, value)
where e.expected is distinct from c.count and (span = 'EVER' or starts_at > now() - interval '1 hour')
"""


async def miscounted(pool: Pool) -> list[asyncpg.Record]:
    """Counts that differ from the rows they are of, or that one of them lacks."""
    return await pool.fetch(_MISCOUNTED, timeout=120)
