"""Stores doors, outcomes and reports, each in one transaction under the account's lock."""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar, Final
from uuid import UUID

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Connection, PostgresStore, Role, transaction
from openbell_server.adapters.postgres.controls.door_rules import JudgingTransaction
from openbell_server.adapters.postgres.controls.rule_books import RuleBooks
from openbell_server.adapters.postgres.execution.reconciliation import OPEN_MAX, ReconcilingTransaction
from openbell_server.adapters.postgres.execution.tracked_actions import door_facts_of, order_details, tracked_action
from openbell_server.adapters.postgres.intents.intents import terms_of
from openbell_server.application.ports.account_transaction import AccountStanding, BrokerAccount, Hold, TrackedAction
from openbell_server.domain.access.credentials import CredentialStatus
from openbell_server.domain.controls.rules import PLATFORM_ID
from openbell_server.domain.controls.symbol_controls import DoorFacts
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import AccountId, ActionId, IntentId, Symbol
from openbell_server.domain.markets.calendars import MarketCalendars
from openbell_server.domain.orders.action_lifecycle import SETTLED, ActionState, Reason, advance
from openbell_server.domain.orders.broker_reports import BrokerExecution, ExecutionChange
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import Order
from openbell_server.domain.orders.order_terms import Terms
from openbell_server.domain.orders.positions import PositionCause

ROUND_MAX: Final = 200
# Balances are kept fresh for this time after somebody read them.
WANTED_SECONDS: Final = 600.0
WANTED_MAX: Final = 1_000
_queries = named_queries.load("execution")
_order_details = named_queries.load("order_details")
_unknown_outcomes = named_queries.load("unknown_outcomes")
_reconciliation = named_queries.load("reconciliation")
_positions = named_queries.load("positions")
_balances = named_queries.load("balances")


@dataclass(slots=True)
class PostgresAccountTransaction(ReconcilingTransaction, JudgingTransaction):
    """Implements AccountTransaction."""

    connection: Connection
    account: BrokerAccount
    now: datetime
    hold: Hold | None
    was_restored: bool
    epochs: tuple[int, int]
    halt_code: str | None
    books: RuleBooks
    calendars: MarketCalendars | None
    _events: list[tuple[EventKind, IntentId | None, int | None, str]] = field(default_factory=list)

    async def superseded(self) -> list[TrackedAction]:
        return await self._tracked(self._run(_queries.superseded, row_limit=ROUND_MAX))

    async def standing(self) -> AccountStanding:
        # Not read with the lock: a statement that waits for a lock returns other rows as they were before the wait.
        row = await self._run(_queries.standing)
        return AccountStanding(self.epochs, row["credential_version"], CredentialStatus(row["credential_status"]))

    async def ready(self, limit: int, *, commands: int, cancels: bool, cancels_unseen: bool) -> list[TrackedAction]:
        if cancels:
            ready = self._run(_queries.ready_cancels, cancels_unseen=cancels_unseen, row_limit=limit)
            if found := await self._tracked(ready):
                return found
        others = self._run(_queries.ready_others, row_limit=min(commands, limit))
        return await self._tracked(others, judged=True)

    async def in_doubt(self) -> list[TrackedAction]:
        return await self._tracked(self._run(_queries.in_doubt, row_limit=ROUND_MAX))

    async def has_queued(self, *, cancels: bool = False) -> bool:
        look = _queries.one_queued_cancel if cancels else _queries.one_queued
        return await self._run(look) is not None

    async def of_intents(self, intent_ids: Sequence[IntentId]) -> list[TrackedAction]:
        return await self._tracked(self._run(_queries.of_intents, intent_ids=list(intent_ids)))

    async def open_orders(self) -> list[TrackedAction]:
        return await self._tracked(self._run(_queries.open_orders, row_limit=OPEN_MAX))

    async def intents_of(self, action_ids: Sequence[ActionId]) -> dict[ActionId, IntentId]:
        rows = self._run(_queries.intents_of, action_ids=list(action_ids))
        return {row["action_id"]: row["intent_id"] async for row in rows}

    async def intents_of_broker_orders(self, broker_order_ids: Sequence[str]) -> dict[str, IntentId]:
        rows = self._run(_order_details.intents_of_broker_orders, broker_order_ids=list(broker_order_ids))
        return {row["broker_order_id"]: row["intent_id"] async for row in rows}

    async def adopt_forgotten_orders(self, action_ids: Sequence[ActionId]) -> dict[ActionId, ActionId]:
        rows = self._run(_queries.adopt_forgotten_orders, action_ids=list(action_ids))
        return {row["action_id"]: row["known_as"] async for row in rows}

    async def add_forgotten_orders(self, action_ids: Sequence[ActionId]) -> None:
        await self._run(_queries.add_forgotten_orders, action_ids=list(action_ids))

    async def end_hold(self, hold: Hold) -> None:
        await self._run(_queries.end_hold, epoch=hold.epoch)

    async def open_doors(self, action_ids: Sequence[ActionId], attempt_id: UUID) -> dict[ActionId, datetime]:
        rows = self._run(_queries.open_doors, action_ids=list(action_ids), attempt_id=attempt_id)
        opened = {row["action_id"]: row["send_started_at"] async for row in rows}
        assert opened.keys() == set(action_ids), "the account's lock was not held"
        return opened

    async def save_action(self, action: TrackedAction, state: ActionState, reason: Reason | None) -> None:
        advance(action.state, state)
        await self._run(
            _queries.save_action,
            action_id=action.action_id,
            previous=action.state,
            state=state,
            reason_code=reason and reason.code,
            broker_code=reason and reason.broker_code,
            broker_text=reason and reason.broker_text,
            settled=state in SETTLED,
        )

    async def add_probe(self, action_id: ActionId, asked_at: datetime, *, found: bool) -> None:
        await self._run(_queries.add_probe, action_id=action_id, asked_at=asked_at, found=found)

    async def save_order(self, action: TrackedAction, order: Order) -> None:
        await self._run(
            _queries.save_order,
            order_id=action.intent_id,
            quantity=order.terms.quantity,
            limit_price=order.terms.limit_price,
            stop_price=order.terms.stop_price,
            time_in_force=order.terms.time_in_force,
            filled_quantity=order.filled_quantity,
            filled_value=order.filled_value,
            standing=order.standing,
            close_reason=order.close_reason,
            pending=order.pending,
            certainty=order.certainty,
            broker_order_ids=list(order.broker_order_ids),
        )
        if order_details(order) != order_details(action.order):
            await self._run(_order_details.save_order_details, order_id=action.intent_id, **order_details(order))

    async def flag_action(self, action_id: ActionId) -> datetime | None:
        flagged_at: datetime | None = await self._run(_unknown_outcomes.flag_action, action_id=action_id)
        return flagged_at

    async def to_flag(self, stuck_after_seconds: float, flag_after_seconds: float) -> list[TrackedAction]:
        rows = self._run(
            _unknown_outcomes.to_flag,
            stuck_after_seconds=stuck_after_seconds,
            flag_after_seconds=flag_after_seconds,
            row_limit=ROUND_MAX,
        )
        return await self._tracked(rows)

    async def count_repeat(self, action: TrackedAction) -> None:
        await self._run(_unknown_outcomes.count_repeat, action_id=action.action_id)

    async def door_facts(self, action: TrackedAction) -> DoorFacts:
        return door_facts_of(await self._run(_unknown_outcomes.door_facts, action_id=action.action_id))

    async def record_resend(self, action: TrackedAction, attempt_id: UUID) -> datetime:
        resent_at: datetime | None = await self._run(
            _unknown_outcomes.record_resend,
            action_id=action.action_id,
            attempt_before=action.attempt_id,
            attempt_id=attempt_id,
        )
        assert resent_at is not None, "the account's lock was not held"
        return resent_at

    async def add_executions(self, intent_id: IntentId, fills: Sequence[BrokerExecution]) -> set[str]:
        if not fills:
            return set()
        rows = self._run(
            _queries.add_executions,
            order_id=intent_id,
            execution_ids=[fill.execution_id for fill in fills],
            quantities=[fill.quantity for fill in fills],
            prices=[fill.price for fill in fills],
            fees=[fill.fee for fill in fills],
            executed_ats=[fill.executed_at for fill in fills],
        )
        return {row["execution_id"] async for row in rows}

    async def add_execution_changes(self, intent_id: IntentId, changes: Sequence[ExecutionChange]) -> None:
        await self._run(
            _order_details.add_execution_changes,
            order_id=intent_id,
            execution_ids=[change.execution_id for change in changes],
            revisions=[change.revision for change in changes],
            quantities=[change.quantity for change in changes],
            prices=[change.price for change in changes],
            fees=[change.fee for change in changes],
        )

    async def executions_of(self, intent_id: IntentId) -> tuple[list[BrokerExecution], list[ExecutionChange]]:
        executions = self._run(_order_details.executions_of_order, order_id=intent_id)
        changes = self._run(_order_details.changes_of_order, order_id=intent_id)
        return [BrokerExecution(**row) async for row in executions], [ExecutionChange(**row) async for row in changes]

    async def add_to_position(
        self,
        symbol: Symbol,
        change: Decimal,
        cause: PositionCause,
        intent_id: IntentId | None = None,
        *,
        value: Decimal | None = None,
        average_price: Decimal | None = None,
    ) -> Decimal:
        held = await self._run(
            _queries.add_to_position,
            symbol=symbol,
            change=change,
            cause=cause,
            intent_id=intent_id,
            value=value,
            average_price=average_price,
        )
        return Decimal(held)

    def append_event(self, kind: EventKind, intent_id: IntentId | None, seq: int | None, body: str) -> None:
        self._events.append((kind, intent_id, seq, body))

    async def _tracked(self, rows: AsyncIterator[asyncpg.Record], *, judged: bool = False) -> list[TrackedAction]:
        """The actions of rows, with the terms of replaces and, with `judged`, the facts for the check at the door."""
        found = [row async for row in rows]
        replaced = {row["intent_id"] for row in found if row["action_type"] == ActionType.REPLACE}
        asked: dict[ActionId, Terms] = {}
        if replaced:
            terms = self._run(_queries.replacements, intent_ids=list(replaced))
            asked = {row["action_id"]: terms_of(row) async for row in terms}
        return [
            tracked_action(row, asked.get(row["action_id"]), door_facts_of(row) if judged else None) for row in found
        ]

    async def flush_events(self) -> None:
        if self._events:
            await self._run(
                _queries.append_events,
                kinds=[int(kind) for kind, _, _, _ in self._events],
                intent_ids=[intent_id for _, intent_id, _, _ in self._events],
                seqs=[seq for _, _, seq, _ in self._events],
                bodies=[body for _, _, _, body in self._events],
            )


@dataclass(frozen=True, slots=True)
class PostgresExecutionStore(PostgresStore):
    """Implements ExecutionStore."""

    role: ClassVar[Role] = Role.EXECUTION

    books: RuleBooks = field(default_factory=RuleBooks, kw_only=True)
    # None if no market hours are known.
    calendars: MarketCalendars | None = field(default=None, kw_only=True)

    @asynccontextmanager
    async def account_transaction(self, account: BrokerAccount) -> AsyncIterator[PostgresAccountTransaction]:
        async with transaction(self.pool, self.role, account.organization_id) as connection:
            # The time may be from before the wait for the lock; every use of it is safe with an early time.
            locked = await _queries.lock_account(
                connection, organization_id=account.organization_id, account_id=account.account_id
            )
            assert locked is not None, "the organization has no such account: nothing is locked"
            hold = Hold(locked["epoch"], locked["held_at"], locked["look_back_to"]) if locked["held"] else None
            was_restored = locked["held_at"] is not None
            account_transaction = PostgresAccountTransaction(
                connection,
                account,
                locked["now"],
                hold,
                was_restored,
                (locked["epoch"], locked["control_epoch"]),
                locked["halt_code"],
                self.books,
                self.calendars,
            )
            yield account_transaction
            await account_transaction.flush_events()

    async def find_account_across_organizations(self, account_id: AccountId) -> BrokerAccount | None:
        row = await self._one_across(Role.EXECUTOR, _queries.find_account_across_organizations, account_id=account_id)
        return row and BrokerAccount(**row)

    async def accounts_waiting_across_organizations(
        self, slots: Collection[int], older_than_seconds: float
    ) -> list[AccountId]:
        return await self._accounts(
            _queries.accounts_waiting_across_organizations, slots, older_than_seconds=older_than_seconds
        )

    async def accounts_in_doubt_across_organizations(
        self, slots: Collection[int], stuck_after_seconds: float
    ) -> list[AccountId]:
        return await self._accounts(
            _queries.accounts_in_doubt_across_organizations, slots, stuck_after_seconds=stuck_after_seconds
        )

    async def accounts_to_flag_across_organizations(
        self, slots: Collection[int], stuck_after_seconds: float, flag_after_seconds: float
    ) -> list[AccountId]:
        return await self._accounts(
            _unknown_outcomes.accounts_to_flag_across_organizations,
            slots,
            stuck_after_seconds=stuck_after_seconds,
            flag_after_seconds=flag_after_seconds,
        )

    async def accounts_held_across_organizations(
        self, slots: Collection[int], settle_seconds: float
    ) -> list[AccountId]:
        return await self._accounts(_queries.accounts_held_across_organizations, slots, settle_seconds=settle_seconds)

    async def _accounts(self, query: Callable[..., Any], slots: Collection[int], **seconds: float) -> list[AccountId]:
        rows = await self._rows_across(Role.EXECUTOR, query, slots=list(slots), **seconds)
        return [row["account_id"] for row in rows]

    async def accounts_with_open_orders_across_organizations(
        self, broker: str, slots: Collection[int]
    ) -> list[BrokerAccount]:
        return await self._of_broker(_queries.accounts_with_open_orders_across_organizations, broker, slots)

    async def accounts_touched_across_organizations(self, broker: str, slots: Collection[int]) -> list[BrokerAccount]:
        return await self._of_broker(_reconciliation.accounts_touched_across_organizations, broker, slots)

    async def accounts_without_positions_across_organizations(
        self, broker: str, slots: Collection[int]
    ) -> list[BrokerAccount]:
        return await self._of_broker(_positions.accounts_without_positions_across_organizations, broker, slots)

    async def accounts_with_old_balances_across_organizations(
        self, slots: Collection[int], older_than_seconds: float
    ) -> list[BrokerAccount]:
        rows = await self._rows_across(
            Role.EXECUTOR,
            _balances.accounts_with_old_balances_across_organizations,
            slots=list(slots),
            wanted_seconds=WANTED_SECONDS,
            older_than_seconds=older_than_seconds,
            platform_id=PLATFORM_ID,
            row_limit=WANTED_MAX,
        )
        return [BrokerAccount(**row) for row in rows]

    async def _of_broker(self, query: Callable[..., Any], broker: str, slots: Collection[int]) -> list[BrokerAccount]:
        rows = await self._rows_across(Role.EXECUTOR, query, broker=broker, slots=list(slots))
        return [BrokerAccount(**row) for row in rows]
