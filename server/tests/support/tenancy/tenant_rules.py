"""Rules and halts of one organization, for statements that another must not reach them by."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.controls.heartbeats import PostgresHeartbeatStore
from openbell_server.adapters.postgres.execution import ticks
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.heartbeats import HeartbeatTerms
from openbell_server.domain.controls.rules import Address
from support.builders.tenant import Tenant


async def promise_heartbeats(pool: Pool, tenant: Tenant, address: Address) -> None:
    terms = HeartbeatTerms(timeout_seconds=30, cancel_working=True)
    await PostgresHeartbeatStore(pool).beat(address, terms, tenant.principal)


def values_of_rules(now: datetime) -> dict[str, Any]:
    """A value for every parameter that statements about rules have to themselves."""
    return (
        {"is_closed": None, "since": now - timedelta(hours=1), "until": now + timedelta(hours=1), "after_number": 0}
        | {
            "beyond": UUID(int=2**128 - 1),
            "beyond_number": 2**63 - 1,
            "looked_at_max": 1,
            "count_max": 10,
            "skipped": 0,
        }
        | {"switches": None, "timeout_seconds": 30, "cancel_working": True, "is_own": False, "required": True}
        | {"scope": Scope.ACCOUNT, "terms": "{}", "override_terms": None, "override_expires_at": None}
        | {"before_no": None, "rule_before": None, "rule_after": None, "changed_at": now, "whose": UUID(int=0)}
        | {"halted_at": now - timedelta(hours=1), "lifted_at": None, "of_key": None, "of_operation": None}
        | {"first_event": 0, "last_event": None, "first_action": 0, "last_action": None, "of_principal": None}
        | _values_of_what_is_counted(now)
        | _values_of_the_record()
        | _values_of_a_tick()
    )


def _values_of_a_tick() -> dict[str, Any]:
    """Of an empty tick: a test of its own writes full ones."""
    columns: tuple[str, ...] = (*ticks.UNIT, *ticks.EXECUTION, *ticks.EVENT, *ticks.DOOR)
    return {name: [] for name in columns} | {
        "p_attempt_id": UUID(int=1),
        "p_slots": "{}",
        "held_slots": "{}",
        "brokers": ["paper"],
    }


def _values_of_what_is_counted(now: datetime) -> dict[str, Any]:
    return {"scopes": ["organization"], "subjects": [""], "limits": [3], "judged_at": now, "deadline": now} | {
        "currencies": ["USD"],
        "dates": [now.date()],
        "amounts": [1],
        "amount": 1,
        "wants_exposure": True,
        "wants_equals": True,
        "wants_others": True,
        "window_millis": 1_000,
        "platform_id": UUID(int=0),
    }


def _values_of_the_record() -> dict[str, Any]:
    after = {"after_order_id": UUID(int=0), "after_refusal_no": 0, "after_broker_order_id": ""}
    return {"head": 1, "action_no": 1, "refusal_no": 1} | after
