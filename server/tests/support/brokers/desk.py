"""Submits desk commands, and works them off as an executor does."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID

from openbell_server.adapters.calendars.table import load_calendars
from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.connection import DatabaseClock, Pool, Role
from openbell_server.adapters.postgres.controls.markets import PostgresMarketStore
from openbell_server.adapters.postgres.controls.rule_books import ExecutorRuleBookStore
from openbell_server.adapters.postgres.desk.desk_commands import PostgresDeskCommandStore
from openbell_server.adapters.postgres.desk.desk_work import PostgresDeskWorkStore
from openbell_server.adapters.postgres.intents.accept_with_counts import ExecutorCountedAcceptStore
from openbell_server.adapters.postgres.intents.intents import PostgresIntentStore
from openbell_server.application.controls.cancel_by_control import CancelByControl
from openbell_server.application.controls.check_command import CheckCommand
from openbell_server.application.desk.manage_desk_commands import ManageDeskCommands
from openbell_server.application.desk.place_closing_order import PlaceClosingOrder
from openbell_server.application.desk.ports import HeldPosition
from openbell_server.application.desk.work_desk_commands import WorkDeskCommands
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.identifiers import IntentId, Symbol, client_order_id
from openbell_server.domain.orders.broker_reports import ReportStatus
from openbell_server.domain.orders.desk_commands import DeskCommand, DeskCommandType, DeskScope
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_report
from support.tenancy.halts import ALL_SLOTS


def fail(account: BrokerAccount, error: Exception) -> None:
    raise AssertionError(str(account)) from error


@dataclass(frozen=True, slots=True)
class _Outdated(PostgresDeskWorkStore):
    """A store that reads another position outside the lock."""

    seen: HeldPosition = field(kw_only=True)

    async def position(self, account: BrokerAccount, symbol: Symbol) -> HeldPosition:
        return self.seen


@dataclass(frozen=True, slots=True)
class Desk:
    """Submits desk commands for the account of a harness, and works them off."""

    harness: Harness
    # As executors connect.
    executor: Pool

    @property
    def manage(self) -> ManageDeskCommands:
        pool = self.harness.pool
        stores = PostgresOrganizationStore(pool), PostgresDeskCommandStore(pool)
        return ManageDeskCommands(*stores, BROKERS, DatabaseClock(pool), self.harness.hints, b"k" * 32)

    async def submit(
        self,
        command_type: DeskCommandType = DeskCommandType.CANCEL_ALL,
        symbol: str | None = None,
        api_key_id: UUID | None = None,
        key: str | None = None,
        caller: Principal | None = None,
    ) -> tuple[DeskCommand, bool]:
        async def read() -> DeskScope:
            spelled = None if symbol is None else Symbol(symbol)
            return DeskScope(command_type=command_type, symbol=spelled, api_key_id=api_key_id)

        tenant = self.harness.tenant
        return await self.manage.submit(caller or tenant.principal, tenant.account.id, read, key)

    async def cancel_all(self, **of: Any) -> DeskCommand:
        return (await self.submit(**of))[0]

    async def close(self, symbol: str = "AAPL") -> DeskCommand:
        return (await self.submit(DeskCommandType.CLOSE_POSITION, symbol))[0]

    async def sweep(self, seen: HeldPosition | None = None) -> None:
        """Once; with `seen`, as if this position had been read before the account's lock was taken."""
        pool, hints = self.executor, self.harness.hints
        accounts, ids, intents = PostgresOrganizationStore(pool), DatabaseClock(pool), PostgresIntentStore(pool)
        cancel = CancelByControl(intents, ids, hints, lambda _: None)
        check = CheckCommand(
            ExecutorRuleBookStore(pool),
            intents,
            PostgresMarketStore(pool, role=Role.EXECUTION),
            ExecutorCountedAcceptStore(pool),
            load_calendars(),
        )
        store = PostgresDeskWorkStore(pool) if seen is None else _Outdated(pool, seen=seen)
        place = PlaceClosingOrder(store, accounts, check, ids, BROKERS, hints, lambda _: None)
        await WorkDeskCommands(store, accounts, cancel, place, fail).sweep(ALL_SLOTS)

    async def shown(self, command: DeskCommand) -> tuple[DeskCommand, dict[IntentId, str]]:
        """The command, and the outcome of each of its orders."""
        tenant, manage = self.harness.tenant, self.manage
        found, totals = await manage.find(tenant.principal, tenant.account.id, command.id)
        rows = (await manage.orders(tenant.principal, tenant.account.id, command.id, None, 100)).rows
        outcomes = {row.intent_id: str(row.outcome) for row in rows}
        assert len(outcomes) == len(rows) == found.orders == sum(totals.values())
        return found, outcomes

    async def cancels(self) -> list[dict[str, Any]]:
        rows = await self.harness.pool.fetch(
            "select * from intent_actions where action_type = 'CANCEL' order by action_no"
        )
        return [dict(row) for row in rows]

    async def ended(self, intent_id: IntentId, status: ReportStatus = ReportStatus.CANCELED) -> None:
        action_id = await self.harness.pool.fetchval(
            "select action_id from intent_actions where intent_id = $1 and seq = 1", intent_id
        )
        await self.harness.report(a_report(status, client_order_id=client_order_id(action_id)))

    async def age_cancels(self, seconds: float) -> None:
        """As if all that was asked for had been asked for so much earlier."""
        async with self.harness.pool.acquire() as connection, connection.transaction():
            await connection.execute("alter table intent_actions disable trigger append_only")
            await connection.execute(
                f"update intent_actions set created_at = created_at - interval '{seconds} seconds'"
            )
            await connection.execute("alter table intent_actions enable trigger append_only")

    async def age_commands(self, seconds: float) -> None:
        await self.harness.pool.execute(
            f"update desk_commands set created_at = created_at - interval '{seconds} seconds'"
        )

    async def holds(self, quantity: str, symbol: str = "AAPL") -> None:
        """As if the broker's positions were adopted."""
        account = self.harness.tenant.account
        await self.harness.pool.execute(
            "insert into positions (organization_id, account_id, symbol, quantity, updated_at)"
            " values ($1, $2, $3, $4, now()) on conflict (account_id, symbol) do update set quantity = $4",
            account.organization_id,
            account.id,
            symbol,
            Decimal(quantity),
        )
        await self.harness.pool.execute("update account_counters set positions_as_of = now()")
