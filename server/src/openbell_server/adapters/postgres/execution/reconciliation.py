"""Reads and writes for reconciling an account with its broker, under the account's lock."""

import os
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import asyncpg

from openbell_server.adapters.postgres import audit_log, named_queries
from openbell_server.adapters.postgres.access import account_changes
from openbell_server.adapters.postgres.connection import Connection, Pool, Role, transaction
from openbell_server.adapters.postgres.money.balances import balances_of
from openbell_server.application.ports.account_transaction import BrokerAccount, HeldPositions, LastReconciliation
from openbell_server.domain.identifiers import AccountId, ActionId, OrganizationId, Symbol, uuid7
from openbell_server.domain.money.balances import Balances
from openbell_server.domain.orders.action_lifecycle import Reason
from openbell_server.domain.orders.external_orders import ExternalOrder, ExternalStatus
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, TimeInForce

OPEN_MAX: Final = 1000
# The principal in the audit log of a halt.
_PRINCIPAL: Final = ("SYSTEM", "executor")
_queries = named_queries.load("reconciliation")
_execution = named_queries.load("execution")
_positions = named_queries.load("positions")
_markets = named_queries.load("markets")
_balances = named_queries.load("balances")


class ReconcilingTransaction:
    """The part of AccountTransaction that reconciliation needs."""

    __slots__ = ()
    connection: Connection
    account: BrokerAccount
    now: datetime

    def _run(self, statement: Callable[..., Any], **values: object) -> Any:  # noqa: ANN401 - an awaitable or rows
        """Run a statement on this account."""
        account = self.account
        return statement(
            self.connection, organization_id=account.organization_id, account_id=account.account_id, **values
        )

    async def last_reconciliation(self) -> LastReconciliation:
        return LastReconciliation(**await self._run(_execution.last_reconciliation))

    async def save_reconciliation(self, reconciled_at: datetime, event_no: int | None) -> None:
        await self._run(_queries.save_reconciliation, reconciled_at=reconciled_at, event_no=event_no)

    async def forgotten_among(self, action_ids: Collection[ActionId]) -> set[ActionId]:
        rows = self._run(_queries.forgotten_among, action_ids=list(action_ids))
        return {row["action_id"] async for row in rows}

    async def skipped_among(self, action_ids: Collection[ActionId]) -> set[ActionId]:
        rows = self._run(_queries.skipped_among, action_ids=list(action_ids))
        return {row["action_id"] async for row in rows}

    async def external_orders_among(self, broker_order_ids: Collection[str]) -> dict[str, ExternalOrder]:
        rows = self._run(_queries.external_orders_among, broker_order_ids=list(broker_order_ids))
        return {order.broker_order_id: order for order in await _orders(rows)}

    async def external_orders_named(self, client_order_ids: Collection[str]) -> list[ExternalOrder]:
        rows = self._run(_queries.external_orders_named, client_order_ids=list(client_order_ids))
        return await _orders(rows)

    async def open_external_orders(self) -> list[ExternalOrder]:
        return await _orders(self._run(_queries.open_external_orders, row_limit=OPEN_MAX))

    async def save_external_order(self, order: ExternalOrder) -> None:
        await self._run(_queries.save_external_order, **asdict(order))

    async def set_candidates(self, action_id: ActionId, broker_order_ids: Sequence[str]) -> None:
        await self._run(_queries.set_candidates, action_id=action_id, candidates=sorted(broker_order_ids))

    async def held_positions(self) -> HeldPositions:
        as_of = await self._run(_positions.positions_as_of)
        rows = [row async for row in self._run(_positions.positions)]
        return HeldPositions(
            as_of,
            {row["symbol"]: row["quantity"] for row in rows},
            {row["symbol"]: row["updated_at"] for row in rows},
        )

    async def save_positions_as_of(self, as_of: datetime) -> None:
        await self._run(_positions.save_positions_as_of, as_of=as_of)

    async def balances(self) -> Balances | None:
        row = await self._run(_balances.read_balances)
        return None if row is None else balances_of(row)

    async def save_balances(self, balances: Balances) -> bool:
        saved: str = await self._run(_balances.save_balances, **asdict(balances))
        return saved.endswith(" 1")

    async def keep_fill_price(self, symbol: Symbol, price: Decimal, executed_at: datetime) -> None:
        await _markets.save_prices(
            self.connection,
            organization_id=self.account.organization_id,
            broker=self.account.broker,
            source="fill",
            symbols=[symbol],
            market_prices=[price],
            bids=[None],
            asks=[None],
            as_ofs=[executed_at],
        )

    async def halt(self, code: str, detail: str) -> bool:
        if not await self._run(_queries.halt, code=code, detail=detail):
            return False
        organization_id, account_id = self.account.organization_id, self.account.account_id
        reason = Reason(code, broker_text=detail)
        await account_changes.append_account_changed(
            self.connection, organization_id, account_id, ["halt_code"], reason
        )
        audit_id = uuid7(int(self.now.timestamp() * 1000), os.urandom(10))
        before, after = {"halt_code": None}, {"halt_code": code, "halt_detail": detail}
        await audit_log.append(
            self.connection, organization_id, audit_id, _PRINCIPAL, "accounts halt", account_id, before, after
        )
        return True


async def _orders(rows: AsyncIterator[asyncpg.Record]) -> list[ExternalOrder]:
    return [external_order(row) async for row in rows]


def external_order(row: asyncpg.Record | Mapping[str, Any]) -> ExternalOrder:
    return ExternalOrder(
        broker_order_id=row["broker_order_id"],
        client_order_id=row["client_order_id"],
        symbol=row["symbol"],
        order_side=OrderSide(row["order_side"]),
        order_type=OrderType(row["order_type"]),
        quantity=row["quantity"],
        limit_price=row["limit_price"],
        stop_price=row["stop_price"],
        time_in_force=None if row["time_in_force"] is None else TimeInForce(row["time_in_force"]),
        status=ExternalStatus(row["status"]),
        filled_quantity=row["filled_quantity"],
        filled_value=row["filled_value"],
        accepted_at=row["accepted_at"],
    )


async def list_external_orders(
    pool: Pool, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
) -> list[tuple[int, ExternalOrder]]:
    """External orders of an account with numbers greater than `after`, in the order in which they were found."""
    async with transaction(pool, Role.TENANT, organization_id) as connection:
        rows = _queries.list_external_orders(
            connection, organization_id=organization_id, account_id=account_id, after=after, row_limit=limit
        )
        return [(row["number"], external_order(row)) async for row in rows]
