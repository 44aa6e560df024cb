"""Finds what is left to do for desk commands, and records how it ended."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from uuid import UUID

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import PostgresStore, Role
from openbell_server.adapters.postgres.desk.desk_commands import closing_order
from openbell_server.adapters.postgres.intents.accept_with_counts import (
    ExecutorCountedAcceptStore,
    PostgresCountedAccept,
)
from openbell_server.application.controls.ports.rules import Counting
from openbell_server.application.desk.ports import Closing, HeldPosition, OrderToCancel
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.access.principals import Principal, PrincipalKind
from openbell_server.domain.identifiers import ReceiptId, Symbol
from openbell_server.domain.orders.desk_commands import ClosingFacts, DeskReason, End

ACCOUNTS_AT_ONCE_MAX: Final = 1000
ORDERS_AT_ONCE_MAX: Final = 100
CLOSINGS_AT_ONCE_MAX: Final = 100
_queries: Final = named_queries.load("desk_work")


@dataclass(frozen=True, slots=True)
class PostgresPlacingTransaction:
    """Implements PlacingTransaction."""

    counted: PostgresCountedAccept
    held: HeldPosition
    closing: Closing

    async def end(self, end: End, receipt_id: ReceiptId | None = None) -> None:
        account = self.counted.account
        where = {"organization_id": account.organization_id, "account_id": account.id}
        await _queries.end_closing(
            self.counted.connection, **where, **_ended(self.closing.id, end), receipt_id=receipt_id
        )


@dataclass(frozen=True, slots=True)
class PostgresDeskWorkStore(PostgresStore):
    """Implements DeskWorkStore."""

    role: ClassVar[Role] = Role.EXECUTION

    async def accounts_with_desk_commands_across_organizations(self, slots: Collection[int]) -> list[BrokerAccount]:
        query = _queries.accounts_with_desk_commands_across_organizations
        rows = await self._rows_across(Role.EXECUTOR, query, slots=list(slots), row_limit=ACCOUNTS_AT_ONCE_MAX)
        return [BrokerAccount(row["organization_id"], row["account_id"], row["broker"], row["slot"]) for row in rows]

    async def orders_to_cancel(self, account: BrokerAccount) -> list[OrderToCancel]:
        rows = await self._rows(_queries.desk_orders_to_cancel, **_where(account), row_limit=ORDERS_AT_ONCE_MAX)
        return [
            OrderToCancel(
                desk_command_id=row["desk_command_id"],
                intent_id=row["order_id"],
                symbol=row["symbol"],
                seen_at=row["now"],
                cancels=row["cancels"],
            )
            for row in rows
        ]

    async def end_cancels(self, account: BrokerAccount) -> None:
        await self._one(_queries.end_cancel_all, **_where(account))

    async def closings(self, account: BrokerAccount) -> list[Closing]:
        rows = await self._rows(_queries.closings, **_where(account), row_limit=CLOSINGS_AT_ONCE_MAX)
        return [_closing(account, row) for row in rows]

    async def end(self, account: BrokerAccount, desk_command_id: UUID, end: End) -> None:
        await self._one(_queries.end_closing, **_where(account), **_ended(desk_command_id, end), receipt_id=None)

    async def wait(self, account: BrokerAccount, desk_command_id: UUID, reason: DeskReason | None) -> None:
        await self._one(
            _queries.set_waiting_reason, **_where(account), desk_command_id=desk_command_id, desk_reason=reason
        )

    async def position(self, account: BrokerAccount, symbol: Symbol) -> HeldPosition:
        return _held(await self._one(_queries.position_to_close, **_where(account), symbol=symbol))

    @asynccontextmanager
    async def placing(
        self, account: TradingAccount, question: Counting, closing: Closing
    ) -> AsyncIterator[PostgresPlacingTransaction]:
        async with ExecutorCountedAcceptStore(self.pool).counting(account, question) as counted:
            row = await _queries.position_to_close(
                counted.connection,
                organization_id=account.organization_id,
                account_id=account.id,
                symbol=closing.symbol,
            )
            yield PostgresPlacingTransaction(counted, _held(row), closing)


def _closing(account: BrokerAccount, row: asyncpg.Record) -> Closing:
    return Closing(
        id=row["desk_command_id"],
        symbol=row["symbol"],
        principal=Principal(
            kind=PrincipalKind(row["principal_type"]),
            id=row["principal_id"],
            organization_id=account.organization_id,
            environment=None,
            permissions=frozenset(),
        ),
        facts=ClosingFacts(
            age=row["age"],
            open_orders=row["open_orders"],
            unknown_orders=row["unknown_orders"],
            closing=closing_order(row["intent_id"], row["close_reason"], row["certainty"]),
            waits_for=row["reason"] and DeskReason(row["reason"]),
        ),
    )


def _held(row: asyncpg.Record) -> HeldPosition:
    return HeldPosition(quantity=row["quantity"], open_orders=row["open_orders"], now=row["now"])


def _ended(desk_command_id: UUID, end: End) -> dict[str, Any]:
    return {
        "desk_command_id": desk_command_id,
        "failed": end.reason is not None,
        "desk_reason": end.reason,
        "detail": end.detail,
    }


def _where(account: BrokerAccount) -> dict[str, Any]:
    return {"organization_id": account.organization_id, "account_id": account.account_id}
