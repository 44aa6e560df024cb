"""Refusals as the platform writes them: numbered and chained, under the account's lock."""

import json
from typing import Any
from uuid import UUID

from openbell_server.adapters.postgres.connection import Pool
from support.builders.tenant import Tenant, new_id

_REFUSE = """
with numbered as (
    update openbell.account_counters set
        refusal_no = refusal_no + 1, refusal_head = sha256(refusal_head || sha256(convert_to($4, 'UTF8')))
    where organization_id = $1 and account_id = $2
    returning refusal_no
)
insert into openbell.receipts (
    organization_id, account_id, receipt_id, intent_id, seq, verdict, body, hash, refusal_no, created_at
)
select $1, $2, $3, $5, $6, 'REFUSED', $4, sha256(convert_to($4, 'UTF8')), refusal_no, clock_timestamp() from numbered
"""


def a_refusal(reason: str = "QTY_MAX", **changes: Any) -> str:
    """The text of a receipt that refuses."""
    line = {
        "code": "QTY_MAX",
        "scope": "ACCOUNT",
        "mode": "HARD",
        "verdict": "REFUSED",
        "comparison": "AT_MOST",
        "limit": "1000",
        "observed": "5000",
        "control_version": 3,
        "would_pass": f"a quantity of at most 1000, {reason}",
    }
    body = {
        "version": 2,
        "gate": "DOOR" if reason == "DOOR" else "ACCEPT",
        "verdict": "REFUSED",
        "organization_epoch": 1,
        "account_epoch": 4,
        "evaluated_at": "2026-01-05T12:00:00+00:00",
        "command": {"action_type": "CREATE", "symbol": "AAPL", "order_side": "BUY", "quantity": "5000"},
        "rules": [line | changes],
    }
    return json.dumps(body, separators=(",", ":"))


async def refuse(pool: Pool, tenant: Tenant, text: str, intent_id: UUID | None = None, seq: int | None = None) -> UUID:
    """Keep a refusal, of an action that was at its door or of a command that was not recorded."""
    receipt_id = new_id()
    account = tenant.account
    await pool.execute(_REFUSE, account.organization_id, account.id, receipt_id, text, intent_id, seq)
    return receipt_id
