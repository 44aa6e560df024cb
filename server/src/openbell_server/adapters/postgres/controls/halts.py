"""Records halts on accounts and their end, each under the account's lock."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.access import account_changes
from openbell_server.adapters.postgres.connection import Connection, PostgresStore, Role, transaction
from openbell_server.adapters.postgres.controls.control_events import append_rule_changed, switch_state
from openbell_server.adapters.postgres.controls.control_rules import find_with_removed
from openbell_server.application.controls.ports.halts import HaltedOrder
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.halts import Switch
from openbell_server.domain.controls.rules import PLATFORM_ID, SWITCH, Address, ControlChange, SwitchState
from openbell_server.domain.orders.action_lifecycle import Reason

ACCOUNTS_AT_ONCE_MAX: Final = 1000
ORDERS_AT_ONCE_MAX: Final = 100
# The reason code in the account's log when a halt ends.
RESUMED: Final = "RESUMED"
_CHANGED: Final = ("halt",)
_queries = named_queries.load("halts")


@dataclass(frozen=True, slots=True)
class PostgresHaltStore(PostgresStore):
    """Implements HaltStore."""

    role: ClassVar[Role] = Role.EXECUTION

    async def to_record_across_organizations(self, slots: Collection[int]) -> list[tuple[BrokerAccount, Switch]]:
        rows = await self._across(_queries.halts_to_record_across_organizations, slots)
        return [(_account(row), switch_of(row)) for row in rows]

    async def to_lift_across_organizations(self, slots: Collection[int]) -> list[tuple[BrokerAccount, Switch]]:
        rows = await self._across(_queries.halts_to_lift_across_organizations, slots)
        return [(_account(row), switch_of(row)) for row in rows]

    async def record(self, account: BrokerAccount, switch: Switch) -> bool:
        return await self._write(_queries.record_halt, account, switch, Reason(switch.state))

    async def lift(self, account: BrokerAccount, switch: Switch) -> bool:
        return await self._write(_queries.lift_halt, account, switch, Reason(RESUMED))

    async def to_cancel_across_organizations(self, slots: Collection[int]) -> list[BrokerAccount]:
        return [_account(row) for row in await self._across(_queries.accounts_to_cancel_across_organizations, slots)]

    async def orders_to_cancel(self, account: BrokerAccount) -> list[HaltedOrder]:
        rows = await self._rows(_queries.orders_to_cancel, **_where(account), row_limit=ORDERS_AT_ONCE_MAX)
        return [
            HaltedOrder(
                intent_id=row["order_id"],
                symbol=row["symbol"],
                switch=switch_of(row),
                seen_at=row["now"],
                cancels=row["cancels"],
            )
            for row in rows
        ]

    async def to_compare_across_organizations(self, slots: Collection[int]) -> list[BrokerAccount]:
        return [_account(row) for row in await self._across(_queries.accounts_to_compare_across_organizations, slots)]

    async def note_comparison(self, account: BrokerAccount) -> bool:
        return bool(await self._one(_queries.note_comparison, **_where(account)))

    async def _across(self, query: Callable[..., Any], slots: Collection[int]) -> list[asyncpg.Record]:
        return await self._rows_across(Role.EXECUTOR, query, slots=list(slots), row_limit=ACCOUNTS_AT_ONCE_MAX)

    async def _write(self, query: Callable[..., Any], account: BrokerAccount, switch: Switch, reason: Reason) -> bool:
        where = _where(account)
        named = {"scope": switch.scope, "of_whom": switch.subject, "version": switch.version, "state": switch.state}
        async with transaction(self.pool, self.role, account.organization_id) as connection:
            await account_changes.lock_account(connection, **where)
            if not await query(connection, **where, **named):
                return False
            await account_changes.append_account_changed(connection, **where, changed=_CHANGED, reason=reason)
            await _append_switch_changed(connection, account, switch, is_lifted=reason.code == RESUMED)
        return True


async def _append_switch_changed(
    connection: Connection, account: BrokerAccount, switch: Switch, *, is_lifted: bool
) -> None:
    """Append the event of a switch above the account or of an expired one; others were appended when they were set."""
    above = switch.scope not in (Scope.ACCOUNT, Scope.SYMBOL)
    address = Address(
        organization_id=PLATFORM_ID if switch.scope is Scope.PLATFORM else account.organization_id,
        scope=switch.scope,
        account_id=None if above else account.account_id,
        symbol=switch.symbol,
        api_key_id=switch.subject if switch.scope is Scope.KEY else None,
    )
    rule = await find_with_removed(connection, address, SWITCH)
    if rule is None:
        return
    is_same, state = rule.version == switch.version, switch_state(rule)
    if not is_lifted:
        if above and is_same:
            change = ControlChange.CREATED if rule.version == 1 else ControlChange.CHANGED
            await append_rule_changed(connection, **_where(account), rule=rule, change=change, state=switch.state)
    elif is_same:
        await append_rule_changed(connection, **_where(account), rule=rule, change=ControlChange.EXPIRED)
    elif above and state is SwitchState.ACTIVE:
        change = ControlChange.REMOVED if rule.terms is None else ControlChange.CHANGED
        await append_rule_changed(connection, **_where(account), rule=rule, change=change)


def switch_of(row: asyncpg.Record) -> Switch:
    return Switch(
        scope=Scope(row["scope"]), subject=row["subject"], version=row["version"], state=SwitchState(row["state"])
    )


def _account(row: asyncpg.Record) -> BrokerAccount:
    return BrokerAccount(row["organization_id"], row["account_id"], row["broker"], row["slot"])


def _where(account: BrokerAccount) -> dict[str, Any]:
    return {"organization_id": account.organization_id, "account_id": account.account_id}
