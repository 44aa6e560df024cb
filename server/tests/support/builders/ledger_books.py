"""Builds both ledgers' records for tests that judge books: valid by default, one override per test."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from openbell import Action, Execution, Reason
from openbell_server.brokers.paper.wire import ExecutionBody, LedgerOrderBody
from openbell_server.domain.identifiers import ActionId, client_order_id
from openbell_server.domain.orders.broker_reports import ReportStatus
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, TimeInForce

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
ACCOUNT = UUID(int=1)


def create(
    intent_id: str, number: int, state: str = "ACKED", reason: Reason | None = None, account: UUID = ACCOUNT
) -> Action:
    return Action(
        id=str(UUID(int=number)),
        intent_id=intent_id,
        account_id=str(account),
        organization_id=str(UUID(int=2)),
        seq=1,
        action_type="CREATE",
        symbol="AAPL",
        order_side="BUY",
        order_type="MARKET",
        route_strategy="SMART",
        quantity=Decimal(10),
        time_in_force="DAY",
        principal_type="api_key",
        principal_id="key",
        receipt_id=str(UUID(int=3)),
        created_at=NOON,
        status=state,
        reason=reason,
    )


def shown(action: Action, state: str, **changes: Any) -> Action:
    execution = Execution(
        status=state,
        filled_quantity=Decimal(0),
        leaves_quantity=Decimal(0),
        certainty="CONFIRMED",
        updated_at=NOON,
    )
    return msgspec.structs.replace(action, execution=msgspec.structs.replace(execution, **changes))


def order(
    number: int, broker_number: int, status: ReportStatus, *fills: str, account: UUID = ACCOUNT
) -> LedgerOrderBody:
    executions = tuple(
        ExecutionBody(execution_id=f"P{broker_number}-{i}", quantity=quantity, price="99.5", executed_at=NOON)
        for i, quantity in enumerate(fills, 1)
    )
    return LedgerOrderBody(
        number=broker_number,
        account_id=account,
        client_order_id=client_order_id(ActionId(UUID(int=number))),
        broker_order_id=f"P{broker_number}",
        symbol="AAPL",
        side=OrderSide.BUY,
        type=OrderType.MARKET,
        quantity="10",
        limit_price=None,
        stop_price=None,
        time_in_force=TimeInForce.DAY,
        terms_version=1,
        accepted_at=NOON,
        status=status,
        triggered=False,
        filled_quantity=str(sum((Decimal(quantity) for quantity in fills), Decimal(0))),
        executions=executions,
    )
