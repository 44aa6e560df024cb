"""Lists of an organization, the newest first: what they take with few orders in 200 accounts, and with many."""

from dataclasses import dataclass

import asyncpg
import httpx

from openbell_server.adapters.postgres.connection import Pool
from support.builders.tenant import Tenant, a_tenant, an_account
from support.rest.rest_api import RestApi

ACCOUNTS = 200
# Of each account so many orders are open, and one order in a thousand is of a rare symbol.
OPEN = 5
_PAST = """
select n, $1::uuid as organization_id, ($2::uuid[])[1 + n % array_length($2, 1)] as account_id,
    n / array_length($2, 1) + 1 as action_no,
    ('0190' || lpad(to_hex(n), 8, '0') || '70008000' || repeat('0', 11) || '1')::uuid as action_id,
    ('0190' || lpad(to_hex(n), 8, '0') || '70008000' || repeat('0', 11) || '2')::uuid as intent_id,
    case n % 1000 when 7 then 'RARE' else (array['AAPL', 'MSFT', 'SPY', 'BRK.B'])[1 + n % 4] end as symbol,
    (array['BUY', 'SELL'])[1 + n % 2] as order_side, n > $3 - $4 as is_open,
    now() - ($3 + 1 - n) * interval '30 days' / ($3 + 1) as created_at
from generate_series(1, $3::bigint) n
"""
_STATEMENTS = (
    f"""insert into orders (
        organization_id, account_id, order_id, symbol, order_side, order_type, route_strategy, quantity, time_in_force,
        filled_quantity, filled_value, standing, close_reason, pending, created_at, updated_at
    )
    select organization_id, account_id, intent_id, symbol, order_side, 'MARKET', 'SMART', 10, 'DAY',
        case when is_open then 0 else 10 end, 10, case when is_open then 'WORKING' else 'CLOSED' end,
        case when not is_open then 'FILLED' end, 'NONE', created_at, created_at from ({_PAST}) p""",
    f"""insert into intent_actions (
        organization_id, account_id, intent_id, seq, action_id, action_no, chained_from, action_type, symbol,
        order_side, order_type, route_strategy, quantity, time_in_force, principal_type, principal_id, receipt_id,
        created_at, hash
    )
    select organization_id, account_id, intent_id, 1, action_id, action_no, action_no, 'CREATE', symbol, order_side,
        'MARKET', 'SMART', 10, 'DAY', 'API_KEY', 'past', action_id, created_at, sha256(n::text::bytea)
    from ({_PAST}) p""",
    f"""insert into action_states (
        organization_id, account_id, action_id, intent_id, seq, action_no, action_type, slot, state, attempt_id,
        send_started_at, queued_at, updated_at, settled_at
    )
    select organization_id, account_id, action_id, intent_id, 1, action_no, 'CREATE', 0, 'ACKED', action_id,
        created_at, created_at, created_at, created_at from ({_PAST}) p""",
    f"""insert into executions (
        organization_id, account_id, execution_id, order_id, quantity, price, executed_at, recorded_at
    )
    select organization_id, account_id, 'e' || n, intent_id, 10, 1, created_at, created_at
    from ({_PAST}) p where not is_open""",
)


@dataclass(frozen=True)
class OrganizationLists:
    """An organization with so many orders, and its lists."""

    api: RestApi
    tenant: Tenant
    another_account: str

    def queries(self) -> list[tuple[str, dict[str, str]]]:
        account = {"account_id": self.another_account}
        filters: list[dict[str, str]] = [
            {},
            account,
            {"status": "WORKING"},
            {"status": "WORKING", **account},
            {"status": "CLOSED"},
            {"certainty": "UNKNOWN"},
            {"symbol": "AAPL"},
            {"symbol": "RARE"},
            {"order_side": "SELL"},
        ]
        return [("orders", each) for each in filters] + [
            ("executions", each) for each in ({}, account, {"symbol": "AAPL"}, {"symbol": "RARE"})
        ]

    async def read(self, what: str, query: dict[str, str]) -> httpx.Response:
        headers = {"x-api-key": self.tenant.key}
        return await self.api.client.get(f"/v1/{what}", params={**query, "order": "desc"}, headers=headers)


async def an_organization_with_orders(owner_url: str, pool: Pool, api: RestApi, orders: int) -> OrganizationLists:
    tenant = await a_tenant(pool)
    organization_id = tenant.account.organization_id
    accounts = [tenant.account.id, *[(await an_account(pool, organization_id)).id for _ in range(ACCOUNTS - 1)]]
    owner = await asyncpg.connect(owner_url, timeout=60, server_settings={"search_path": "openbell, pg_catalog"})
    # Row by row the foreign keys would be asked for what is so by construction.
    await owner.execute("set session_replication_role = replica")
    for statement in _STATEMENTS:
        await owner.execute(statement, organization_id, accounts, orders, OPEN * ACCOUNTS, timeout=600)
    await owner.execute("vacuum analyze", timeout=600)
    await owner.close()
    return OrganizationLists(api, tenant, str(accounts[7]))
