"""Halts in tests: switches set as any caller sets them, and the sweep that enacts them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.connection import DatabaseClock, Pool
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.adapters.postgres.controls.halt_reports import PostgresHaltReports
from openbell_server.adapters.postgres.controls.halts import PostgresHaltStore
from openbell_server.adapters.postgres.intents.intents import PostgresIntentStore
from openbell_server.application.controls.cancel_by_control import CancelByControl
from openbell_server.application.controls.enact_halts import EnactHalts
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.access.principals import Principal, PrincipalKind
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.halts import Halt, HaltFigures, HaltReport, InFlight, Switch
from openbell_server.domain.controls.rules import (
    PLATFORM_ID,
    SWITCH,
    Address,
    Override,
    RuleTerms,
    StoredRule,
    SwitchState,
)
from openbell_server.domain.identifiers import AccountId, Symbol
from support.brokers.scripted_broker import Harness
from support.builders.tenant import Tenant

ALL_SLOTS = frozenset(range(64))
OLGA = Principal(
    kind=PrincipalKind.OPERATOR, id="olga", organization_id=PLATFORM_ID, environment=None, permissions=frozenset()
)


def switch_terms(state: str = "HALTED", *, cancel_working: bool = False) -> RuleTerms:
    return RuleTerms(parameters={"status": state, "cancel_working": cancel_working})


@dataclass(frozen=True, slots=True)
class Switchboard:
    """Sets the switches around the account of a desk, and enacts them."""

    harness: Harness
    heard: list[AccountId] = field(default_factory=list)
    compared: list[BrokerAccount] = field(default_factory=list)

    def address(self, scope: Scope, symbol: str = "AAPL", api_key_id: str | None = None) -> Address:
        account, principal = self.harness.tenant.account, self.harness.tenant.principal
        organization_id = PLATFORM_ID if scope is Scope.PLATFORM else account.organization_id
        of: dict[str, Any] = {}
        if scope in (Scope.ACCOUNT, Scope.SYMBOL):
            of["account_id"] = account.id
        if scope is Scope.SYMBOL:
            of["symbol"] = Symbol(symbol)
        if scope is Scope.KEY:
            of["api_key_id"] = api_key_id or principal.id
        return Address(organization_id=organization_id, scope=scope, **of)

    async def set(self, address: Address, change: RuleTerms | Override | None, reason: str = "a drill") -> StoredRule:
        who = OLGA if address.scope is Scope.PLATFORM else self.harness.tenant.principal
        saved = await PostgresRuleStore(self.harness.pool).save_rule(address, SWITCH, change, reason, who, None)
        assert saved is not None
        return saved

    async def halt(
        self, scope: Scope = Scope.ACCOUNT, state: str = "HALTED", *, cancel_working: bool = True, **of: str
    ) -> StoredRule:
        return await self.set(self.address(scope, **of), switch_terms(state, cancel_working=cancel_working))

    async def resume(self, scope: Scope = Scope.ACCOUNT, **of: str) -> StoredRule:
        return await self.set(self.address(scope, **of), switch_terms("ACTIVE"))

    def enacting(self, then: Callable[[AccountId], None] | None = None) -> EnactHalts:
        pool = self.harness.pool
        told = then or self.heard.append
        cancel = CancelByControl(PostgresIntentStore(pool), DatabaseClock(pool), self.harness.hints, told)
        stores = PostgresHaltStore(pool), PostgresOrganizationStore(pool)
        return EnactHalts(*stores, cancel, self.harness.hints, told, self.compared.append)

    async def sweep(self) -> None:
        await self.enacting().sweep(ALL_SLOTS)

    async def reports(self) -> list[HaltReport]:
        """Of every halt, the newest first."""
        account = self.harness.tenant.account
        store = PostgresHaltReports(self.harness.pool)
        return [report for _, report in await store.list_reports(account.organization_id, account.id, None, 100)]

    async def told(self) -> tuple[Halt, HaltFigures, list[InFlight]]:
        """What the report says of the only halt."""
        (report,) = await self.reports()
        return report.halt, report.figures, [*report.in_flight]

    async def cancels(self) -> list[dict[str, Any]]:
        rows = await self.harness.pool.fetch(
            "select * from intent_actions where action_type = 'CANCEL' order by action_no"
        )
        return [dict(row) for row in rows]

    async def records(self) -> list[dict[str, Any]]:
        rows = await self.harness.pool.fetch("select * from account_halts order by halted_at, version")
        return [dict(row) for row in rows]


async def halted(pool: Pool, tenant: Tenant) -> Tenant:
    """The tenant with a halt that is on record and was lifted, and with the next one that is not."""
    rules, account = PostgresRuleStore(pool), tenant.account
    address = Address(organization_id=account.organization_id, scope=Scope.ACCOUNT, account_id=account.id)
    await rules.save_rule(address, SWITCH, switch_terms(cancel_working=True), "drill", tenant.principal, None)
    switch = Switch(scope=address.scope, subject=address.subject, version=1, state=SwitchState.HALTED)
    where = BrokerAccount(account.organization_id, account.id, account.broker, account.slot)
    assert await PostgresHaltStore(pool).record(where, switch)
    reducing = switch_terms("REDUCE_ONLY", cancel_working=True)
    await rules.save_rule(address, SWITCH, reducing, "drill", tenant.principal, None)
    found = await PostgresOrganizationStore(pool).find_account(account.organization_id, account.id)
    assert found is not None
    return replace(tenant, account=found)
