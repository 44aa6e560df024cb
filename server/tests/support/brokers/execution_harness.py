"""One account with what executes its actions, whichever broker it is at."""

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import asyncpg

from openbell_server.adapters.calendars.table import load_calendars
from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.connection import UNAVAILABLE, Pool
from openbell_server.adapters.postgres.controls.rule_books import RuleBooks
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.adapters.postgres.execution.slot_leases import PostgresLeaseStore
from openbell_server.application.execution.broker_sign_ins import SendPermission
from openbell_server.application.execution.execute_action import ExecuteAction, SendGate
from openbell_server.application.execution.follow_broker import SignIns
from openbell_server.application.execution.slot_leases import SlotLeases
from openbell_server.application.execution.track_orders import TrackOrders
from openbell_server.application.ports.account_transaction import AccountTransaction, BrokerAccount
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import AccountId, IntentId
from openbell_server.domain.orders.intents import Command
from support.brokers.paper_broker import until
from support.builders.tenant import Tenant, accept
from support.rest.rest_api import RecordedHints


class NothingToSignIn:
    """Implements SendGate and SignIns where no account has a credential."""

    async def passage(self, account: BrokerAccount, transaction: AccountTransaction) -> SendPermission:
        del account, transaction
        return SendPermission.OPEN

    changes = 0

    async def begin(self, broker: str, slots: Collection[int]) -> None:
        del broker, slots

    def is_pending(self, account_id: AccountId) -> bool:
        del account_id
        return False


@dataclass(slots=True)
class Clock:
    """A monotonic clock that stands until it is set."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


@dataclass(frozen=True, slots=True)
class ExecutionHarness:
    """Takes what an account asks for, and shows what became of it."""

    pool: Pool
    tenant: Tenant
    clock: Callable[[], float] = field(default_factory=Clock, kw_only=True)
    hints: RecordedHints = field(default_factory=RecordedHints, kw_only=True)
    fence: SendGate = field(default_factory=NothingToSignIn, kw_only=True)
    sign_ins: SignIns = field(default_factory=NothingToSignIn, kw_only=True)
    books: RuleBooks = field(default_factory=RuleBooks, kw_only=True)

    @property
    def account(self) -> BrokerAccount:
        account = self.tenant.account
        return BrokerAccount(account.organization_id, account.id, account.broker, account.slot)

    @property
    def execute(self) -> ExecuteAction:
        store = PostgresExecutionStore(self.pool, books=self.books, calendars=load_calendars())
        return ExecuteAction(store, self.fence, self.hints, uuid4, self.clock, UNAVAILABLE)

    @property
    def track(self) -> TrackOrders:
        return TrackOrders(PostgresExecutionStore(self.pool), self.hints)

    async def accept(self, command: Command | None = None) -> IntentId:
        known = self.tenant.account
        # As it stands now: what was evaluated in an earlier epoch is not accepted.
        account = await PostgresOrganizationStore(self.pool).find_account(known.organization_id, known.id)
        assert account is not None
        (accepted,) = await accept(self.pool, replace(self.tenant, account=account).submission(command))
        assert accepted.status == "ACCEPTED"
        return accepted.intent_id

    async def states(self) -> list[tuple[str, str, str | None]]:
        """Each action in commit order: its type, state and reason."""
        rows = await self.pool.fetch("select action_type, state, reason_code from action_states order by action_no")
        return [tuple(row) for row in rows]

    async def told(self, code: str) -> dict[str, Any]:
        """The one event of an action that gives this reason."""
        rows = await self.pool.fetch(
            "select body from account_events where body::jsonb -> 'reason' ->> 'code' = $1 and kind = $2",
            code,
            EventKind.INTENT_ACTION,
        )
        (body,) = [json.loads(row["body"]) for row in rows]
        return dict(body)

    async def order(self, intent_id: IntentId) -> asyncpg.Record:
        row = await self.pool.fetchrow("select * from orders where order_id = $1", intent_id)
        assert row is not None
        return row

    async def all_slots(self) -> SlotLeases:
        """Leases on every slot, which last as long as the clock stands."""
        slots = SlotLeases(PostgresLeaseStore(self.pool), uuid4(), self.clock)
        await slots.renew()
        return slots

    async def until_closed(self, intent_id: IntentId) -> None:
        async def is_closed() -> bool:
            return bool((await self.order(intent_id))["standing"] == "CLOSED")

        await until(is_closed)
