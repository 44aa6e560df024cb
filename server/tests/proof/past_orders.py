"""Settled orders of a month as rows of both ledgers, for platforms that must be old without having worked."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

import asyncpg

from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.domain.identifiers import ActionId, client_order_id
from proof.books import rows
from proof.filled_once import paper_ledger
from proof.long_history import write_settled_orders

_ACCOUNTS: Final = "select organization_id, account_id, slot from openbell.account_counters where account_id = any ($1)"
_ACTIONS: Final = """
select account_id, action_id, symbol, quantity from openbell.intent_actions order by account_id, action_no
"""
_FIRST_NUMBERS: Final = """
select
    (select coalesce(max(number), 0) from orders) as orders,
    (select coalesce(max(number), 0) from updates) as updates
"""
# Longer ago than a reconciliation looks back.
_AGE: Final = timedelta(days=2)
_PRICE: Final = Decimal(1)
# In the order in which their foreign keys need them.
_COLUMNS: Final = {
    "requests": "kind account_id client_order_id received_at done",
    "orders": """
        number account_id client_order_id symbol order_side order_type quantity time_in_force accepted_at status
        triggered filled_quantity
    """,
    "executions": "order_number ordinal quantity price executed_at",
    "updates": "number order_number status filled_quantity execution_ordinal happened_at",
}


async def write_past_orders(platform: LocalPlatform, orders: int) -> None:
    """So many filled orders in each account, in the platform's ledger and in the paper broker's, which must not run."""
    accounts = await rows(platform.owner_url, _ACCOUNTS, platform.seeded.account_ids)
    await write_settled_orders(platform.owner_url, [tuple(account) for account in accounts], orders)
    broker = await asyncpg.connect(paper_ledger(platform), timeout=60)
    try:
        async with broker.transaction():
            await _write_at_broker(broker, await rows(platform.owner_url, _ACTIONS))
    finally:
        await broker.close(timeout=60)


async def _write_at_broker(broker: asyncpg.Connection, actions: list[asyncpg.Record]) -> None:
    (first,) = await broker.fetch(_FIRST_NUMBERS)
    at = datetime.now(UTC) - _AGE
    records: dict[str, list[tuple[object, ...]]] = {table: [] for table in _COLUMNS}
    for place, (account_id, action_id, symbol, quantity) in enumerate(actions):
        number, name = first["orders"] + place + 1, client_order_id(ActionId(action_id))
        records["requests"].append(("SUBMIT", account_id, name, at, "accepted"))
        terms = (account_id, name, symbol, "BUY", "MARKET", quantity, "DAY")
        records["orders"].append((number, *terms, at, "FILLED", True, quantity))
        records["executions"].append((number, 1, quantity, _PRICE, at))
        update = first["updates"] + 2 * place
        records["updates"].append((update + 1, number, "WORKING", Decimal(0), None, at))
        records["updates"].append((update + 2, number, "FILLED", quantity, 1, at))
    for table, columns in _COLUMNS.items():
        await broker.copy_records_to_table(table, records=records[table], columns=columns.split(), timeout=300)
