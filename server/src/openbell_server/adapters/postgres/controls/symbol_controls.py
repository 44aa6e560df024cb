"""Reads controls of symbols in one statement; changes them under the account's lock, with an audit log row."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import time
from typing import Any, Final
from uuid import UUID

import asyncpg

from openbell_server.adapters.postgres import audit_log, named_queries
from openbell_server.adapters.postgres.access import account_changes
from openbell_server.adapters.postgres.connection import Connection, DatabaseClock, PostgresStore, Role, transaction
from openbell_server.adapters.postgres.controls.control_events import append_control_changed
from openbell_server.adapters.postgres.intents import accept_with_counts
from openbell_server.application.controls.ports.symbol_controls import ControlsNow
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.controls import loosening
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.loosening import TimesChanged
from openbell_server.domain.controls.receipts import Receipt
from openbell_server.domain.controls.rules import ControlChange
from openbell_server.domain.controls.symbol_controls import (
    SYMBOL_DISABLED,
    TIME_FIELDS,
    ManualControl,
    OnClose,
    Recorded,
    SymbolControls,
    TimeControl,
)
from openbell_server.domain.identifiers import AccountId, OrganizationId, ReceiptId, Symbol
from openbell_server.domain.markets.calendars import Session
from openbell_server.domain.markets.trading_windows import Day

# The code in the account's log for a time control, which becomes rules of several codes.
TIME_CONTROL: Final = "TIME_CONTROL"
_queries = named_queries.load("symbol_controls")


async def read_controls(
    connection: Connection, organization_id: OrganizationId, account_id: AccountId, symbols: Sequence[Symbol]
) -> dict[Symbol, ControlsNow]:
    """Read in the caller's transaction."""
    rows = _queries.controls_of_symbols(
        connection, organization_id=organization_id, account_id=account_id, symbols=list(symbols)
    )
    return {row["symbol"]: ControlsNow(_controls(row), row["control_epoch"], row["now"]) async for row in rows}


@dataclass(frozen=True, slots=True)
class PostgresControlStore(PostgresStore):
    """Implements ControlStore."""

    async def find_controls(
        self, organization_id: OrganizationId, account_id: AccountId, symbol: Symbol
    ) -> ControlsNow | None:
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            return (await read_controls(connection, organization_id, account_id, [symbol])).get(symbol)

    async def set_manual(
        self,
        organization_id: OrganizationId,
        account_id: AccountId,
        symbol: Symbol,
        control: ManualControl,
        principal: Principal,
    ) -> Recorded[ManualControl]:
        async with self._changing(organization_id, account_id, symbol, principal) as change:
            before = (await change.read()).manual
            kept = loosening.admit_switch(
                principal, before.control if before else None, control, before.set_by_users if before else frozenset()
            )
            await change.run(_queries.save_manual_control, **asdict(control), set_by_users=sorted(kept))
            after = (await change.read()).manual
            assert after is not None
            await change.audit("controls manual", before, after)
            await change.append_event(SYMBOL_DISABLED, before, after, control.manual_reason)
        return after

    async def change_time(
        self,
        organization_id: OrganizationId,
        account_id: AccountId,
        symbol: Symbol,
        change: Callable[[TimeControl], TimeControl],
        principal: Principal,
        named: Collection[str] = (),
    ) -> Recorded[TimeControl]:
        async with self._changing(organization_id, account_id, symbol, principal) as changing:
            before = (await changing.read()).time
            current = TimeControl() if before is None else before.control
            changed = change(current)
            step = TimesChanged(before=current, after=changed, environment=principal.environment or Environment.LIVE)
            differing = [name for name in TIME_FIELDS if getattr(current, name) != getattr(changed, name)]
            kept = loosening.admit_times(
                principal, step, {*named, *differing}, before.set_by_users if before else frozenset()
            )
            await changing.run(_queries.save_time_control, **asdict(changed), set_by_users=sorted(kept))
            after = (await changing.read()).time
            assert after is not None
            await changing.audit("controls time", before, after)
            await changing.append_event(TIME_CONTROL, before, after)
        return after

    async def keep_refusal(
        self, organization_id: OrganizationId, account_id: AccountId, receipt_id: ReceiptId, receipt: Receipt
    ) -> None:
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            await accept_with_counts.keep_refusal(connection, organization_id, account_id, receipt_id, receipt)

    @asynccontextmanager
    async def _changing(
        self, organization_id: OrganizationId, account_id: AccountId, symbol: Symbol, principal: Principal
    ) -> AsyncIterator["_Change"]:
        # Before the transaction, because a task that holds a connection must not wait for another one.
        (audit_id,) = await DatabaseClock(self.pool).new_ids(1)
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            locked = await account_changes.lock_account(connection, organization_id, account_id)
            assert locked, "the organization has no such account"
            yield _Change(audit_id, connection, organization_id, account_id, symbol, principal)
            await account_changes.begin_epoch(connection, organization_id, account_id)


@dataclass(frozen=True, slots=True)
class _Change:
    """One change of a control, under the account's lock."""

    audit_id: UUID
    connection: Connection
    organization_id: OrganizationId
    account_id: AccountId
    symbol: Symbol
    principal: Principal

    async def read(self) -> SymbolControls:
        read = await read_controls(self.connection, self.organization_id, self.account_id, [self.symbol])
        return read[self.symbol].controls

    async def run(self, save: Callable[..., Any], **fields: object) -> None:
        await save(
            self.connection,
            organization_id=self.organization_id,
            account_id=self.account_id,
            symbol=self.symbol,
            principal_type=self.principal.kind,
            principal_id=self.principal.id,
            **fields,
        )

    async def audit(self, operation: str, before: Recorded[Any] | None, after: Recorded[Any]) -> None:
        await audit_log.append(
            self.connection,
            self.organization_id,
            self.audit_id,
            (self.principal.kind, self.principal.id),
            operation,
            f"{self.account_id} {self.symbol}",
            None if before is None else _facts(before),
            _facts(after),
        )

    async def append_event(
        self, code: str, before: Recorded[Any] | None, after: Recorded[Any], reason: str | None = None
    ) -> None:
        await append_control_changed(
            self.connection,
            self.organization_id,
            self.account_id,
            scope=Scope.SYMBOL,
            subject=self.symbol,
            code=code,
            change=ControlChange.CREATED if before is None else ControlChange.CHANGED,
            version=after.version,
            reason=reason,
            principal_type=self.principal.kind,
            principal_id=self.principal.id,
        )


def _facts(recorded: Recorded[Any]) -> audit_log.Facts:
    facts = {**asdict(recorded.control), "version": recorded.version}
    return {name: str(value) if isinstance(value, time) else value for name, value in facts.items()}


def time_control_of(row: asyncpg.Record | Mapping[str, Any]) -> TimeControl:
    """The control in a row of symbol_time_controls; a column that the statement does not select counts as not set."""
    days, session, on_close = row.get("days"), row.get("session"), row.get("on_close")
    return TimeControl(
        trading_start=row["trading_start"],
        trading_end=row["trading_end"],
        timezone=row["timezone"],
        days=None if days is None else tuple(Day(day) for day in days),
        stale_order_millis=row.get("stale_order_millis"),
        max_resting_millis=row.get("max_resting_millis"),
        calendar=row.get("calendar"),
        session=None if session is None else Session(session),
        on_close=None if on_close is None else OnClose(on_close),
    )


def _controls(row: asyncpg.Record) -> SymbolControls:
    manual, times = None, None
    if row["manual_version"] is not None:
        manual = Recorded(
            control=ManualControl(manually_disabled=row["manually_disabled"], manual_reason=row["manual_reason"]),
            version=row["manual_version"],
            created_at=row["manual_created_at"],
            updated_at=row["manual_updated_at"],
            set_by_users=frozenset(row["manual_set_by_users"]),
        )
    if row["time_version"] is not None:
        times = Recorded(
            control=time_control_of(row),
            version=row["time_version"],
            created_at=row["time_created_at"],
            updated_at=row["time_updated_at"],
            set_by_users=frozenset(row["time_set_by_users"]),
        )
    return SymbolControls(manual=manual, time=times)
