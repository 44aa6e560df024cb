"""Converts rows of the view tracked_actions."""

import json
from datetime import datetime

import asyncpg

from openbell_server.adapters.postgres.intents.intents import order_facts
from openbell_server.application.ports.account_transaction import OrderTerms, TrackedAction
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.principals import PrincipalKind
from openbell_server.domain.controls.symbol_controls import DoorFacts
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import Order
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, RouteStrategy, Terms


def tracked_action(row: asyncpg.Record, replacement: Terms | None, at_door: DoorFacts | None) -> TrackedAction:
    return TrackedAction(
        action_id=row["action_id"],
        intent_id=row["intent_id"],
        seq=row["seq"],
        action_type=ActionType(row["action_type"]),
        state=ActionState(row["state"]),
        attempt_id=row["attempt_id"],
        send_started_at=row["send_started_at"],
        settled_at=row["settled_at"],
        order_action_id=row["order_action_id"],
        misses=[datetime.fromisoformat(p["at"]) for p in json.loads(row["probes"]) if not p["found"]],
        order=order_facts(row),
        terms=OrderTerms(
            symbol=row["symbol"],
            order_side=OrderSide(row["order_side"]),
            order_type=OrderType(row["order_type"]),
            route_strategy=RouteStrategy(row["route_strategy"]),
            client_reference_id=row["client_reference_id"],
        ),
        replacement=replacement,
        at_door=at_door,
        resends=row["resends"],
        flagged_at=row["flagged_at"],
        unknown_since=row["unknown_since"],
    )


def order_details(order: Order) -> dict[str, object]:
    """Columns that few orders use."""
    return {
        "triggered": order.triggered,
        "terms_version": order.terms_version,
        "highest_quantity": order.highest_quantity,
        "busted_quantity": order.busted_quantity,
        "executions_changed": order.executions_changed,
        "ended": order.unshown_end,
        "ended_filled": order.ended_filled,
    }


def door_facts_of(row: asyncpg.Record) -> DoorFacts:
    return DoorFacts(
        now=row["now"],
        queued_at=row["queued_at"],
        environment=Environment(row["environment"]),
        organization_epoch=row["organization_epoch"],
        account_epoch=row["account_epoch"],
        organization_disabled=row["organization_disabled"],
        account_disabled=row["account_disabled"],
        principal_revoked=row["principal_revoked"],
        api_key_id=row["principal_id"] if row["principal_type"] == PrincipalKind.API_KEY else None,
        deadline=row["deadline"],
    )
