"""A desk command cancels every order in its scope, or closes a position, and shows what became of each order."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

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
from openbell_server.application.desk.work_desk_commands import WorkDeskCommands
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.identifiers import IntentId, Symbol, client_order_id
from openbell_server.domain.orders.broker_reports import ReportStatus, Unknown
from openbell_server.domain.orders.desk_commands import DeskCommand, DeskCommandType, DeskScope, DeskStatus
from openbell_server.domain.orders.order_terms import OrderSide
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_limit_create, a_report, a_tenant, an_execution
from support.tenancy.halts import ALL_SLOTS


def fail(account: BrokerAccount, error: Exception) -> None:
    raise AssertionError(str(account)) from error


@dataclass(frozen=True, slots=True)
class Desk:
    """Submits desk commands for the account of a harness, and works them off."""

    harness: Harness

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

    async def sweep(self) -> None:
        pool, hints = self.harness.pool, self.harness.hints
        accounts, ids, intents = PostgresOrganizationStore(pool), DatabaseClock(pool), PostgresIntentStore(pool)
        cancel = CancelByControl(intents, ids, hints, lambda _: None)
        check = CheckCommand(
            ExecutorRuleBookStore(pool),
            intents,
            PostgresMarketStore(pool, role=Role.EXECUTION),
            ExecutorCountedAcceptStore(pool),
            load_calendars(),
        )
        store = PostgresDeskWorkStore(pool)
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


@pytest.fixture
async def desk(pool: Pool) -> Desk:
    return Desk(Harness(pool, await a_tenant(pool)))


async def test_every_open_order_is_cancelled_whatever_its_state(desk: Desk) -> None:
    working, _ = await desk.harness.working()
    desk.harness.broker.script.append(Unknown("timeout"))
    unknown = await desk.harness.accept(a_limit_create())
    await desk.harness.work()
    queued = await desk.harness.accept(a_limit_create())
    command = await desk.cancel_all()
    later = await desk.harness.accept(a_limit_create())
    found, outcomes = await desk.shown(command)
    assert (found.status, found.orders) == (DeskStatus.IN_DOUBT, 3)
    assert outcomes == {working: "PENDING", unknown: "UNKNOWN", queued: "PENDING"}
    await desk.sweep()
    await desk.sweep()
    cancels = await desk.cancels()
    assert {cancel["intent_id"] for cancel in cancels} == {working, unknown, queued}
    assert {(cancel["principal_type"], cancel["principal_id"]) for cancel in cancels} == {
        ("SYSTEM", f"desk_command:{command.id}")
    }
    assert len(cancels) == 3
    await desk.harness.work()
    await desk.ended(working)
    found, outcomes = await desk.shown(command)
    assert outcomes == {working: "CANCELED", unknown: "UNKNOWN", queued: "SKIPPED"}
    assert found.status == DeskStatus.IN_DOUBT
    assert (await desk.harness.order(later))["pending"] == "NEW"


@pytest.mark.parametrize(("held", "side"), [("7.5", OrderSide.SELL), ("-7.5", OrderSide.BUY)])
async def test_a_position_is_closed_once_no_order_of_its_symbol_is_open(desk: Desk, held: str, side: OrderSide) -> None:
    working, _ = await desk.harness.working()
    await desk.holds(held)
    command = await desk.close()
    for _ in range(3):
        await desk.sweep()
    assert len(await desk.cancels()) == 1
    found, _ = await desk.shown(command)
    assert (found.status, found.reason, found.closing) == (DeskStatus.WORKING, "ORDERS_OPEN", None)
    await desk.harness.work()
    await desk.ended(working)
    for _ in range(3):
        await desk.sweep()
    found, outcomes = await desk.shown(command)
    assert outcomes == {working: "CANCELED"}
    assert found.closing is not None
    order = await desk.harness.order(found.closing.intent_id)
    terms = (order["order_side"], order["order_type"], order["quantity"], order["symbol"])
    assert terms == (side, "MARKET", Decimal("7.5"), "AAPL")
    (door,) = await desk.harness.work()
    name = client_order_id(door.action.order_action_id)
    fill = an_execution(1, Decimal("7.5"))
    await desk.harness.report(a_report(ReportStatus.FILLED, [fill], client_order_id=name))
    await desk.sweep()
    found, _ = await desk.shown(command)
    assert (found.status, found.reason) == (DeskStatus.COMPLETED, None)
