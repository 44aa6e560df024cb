"""Rows of the view tracked_actions as execution knows them."""

import json
from datetime import datetime

import asyncpg

from openbell_server.adapters.postgres.intents import order_facts
from openbell_server.application.ports.execution import OrderTerms, TrackedAction
from openbell_server.domain.accounts import Environment
from openbell_server.domain.action_lifecycle import ActionState
from openbell_server.domain.controls import DoorFacts
from openbell_server.domain.intents import ActionType
from openbell_server.domain.order_aggregate import TOLD_ENDS, Order
from openbell_server.domain.orders import OrderSide, OrderType, RouteStrategy, Terms
from openbell_server.domain.principals import PrincipalKind


def tracked_action(row: asyncpg.Record, replacement: Terms | None, at_door: DoorFacts | None) -> TrackedAction:
    """A row of the view tracked_actions, with what a replace asks for and what the door judges by."""
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
        # A schema of before has none of these.
        resends=row.get("resends"),
        flagged_at=row.get("flagged_at"),
        unknown_since=row.get("unknown_since"),
    )


def order_details(order: Order) -> dict[str, object]:
    """What few orders have; an end is among it where the close reason does not say it."""
    return {
        "triggered": order.triggered,
        "terms_version": order.terms_version,
        "highest_quantity": order.highest_quantity,
        "busted_quantity": order.busted_quantity,
        "executions_changed": order.executions_changed,
        "ended": None if order.ended is order.close_reason and order.ended in TOLD_ENDS else order.ended,
        "ended_filled": order.ended_filled,
    }


def door_facts_of(row: asyncpg.Record) -> DoorFacts:
    """What an action is judged by at the door."""
    return DoorFacts(
        now=row["now"],
        queued_at=row["queued_at"],
        environment=Environment(row["environment"]),
        organization_epoch=row["organization_epoch"],
        account_epoch=row["account_epoch"],
        organization_disabled=row["organization_disabled"],
        account_disabled=row["account_disabled"],
        principal_revoked=row["principal_revoked"],
        key_id=row["principal_id"] if row["principal_type"] == PrincipalKind.API_KEY else None,
        deadline=row["deadline"],
    )
