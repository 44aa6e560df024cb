"""OpenAPI row of an account's balances."""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from openbell_server.domain.access.authorization import Operation
from openbell_server.transport.rest.money.balances import BalancesBody
from openbell_server.transport.rest.openapi.operation import Described

_BALANCES: Final = BalancesBody(
    account_id=UUID("01981d3c-7a00-7000-8000-000000000002"),
    broker="alpaca",
    currency="USD",
    cash="25000.5",
    equity="31250.75",
    buying_power="62501.5",
    initial_margin="3125.12",
    maintenance_margin="1875.08",
    as_of=datetime(2026, 1, 5, 14, 30, tzinfo=UTC),
    read_at=datetime(2026, 1, 5, 14, 30, 0, 250_000, UTC),
)

BALANCE_OPERATIONS: Final = (
    Described(
        path="/v1/accounts/{account_id}/balances",
        operation_id="showBalances",
        summary="Show balances",
        description="Cash, equity, buying power and margin as the broker reported them at as_of; read_at is when they "
        "were stored. Amounts that the broker does not report are null. The balances of an account are read from its "
        "broker after fills, and every 30 seconds while somebody reads them here. If they were never read, all amounts "
        "and both times are null: read again after a few seconds.",
        operation=Operation.READ_INTENTS,
        answer_example=_BALANCES,
    ),
)
