"""Lists and settles UNKNOWN actions for operators; each settlement has its row in the audit log."""

from collections.abc import Iterable
from dataclasses import dataclass

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.audit_log import Facts
from openbell_server.adapters.postgres.connection import DatabaseClock, Role, act_as
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.adapters.postgres.operators.operator_store import OperatorStore
from openbell_server.application.execution.settle_manually import Verdict, settle_by_hand
from openbell_server.application.ports.account_transaction import BrokerAccount, TrackedAction
from openbell_server.domain.errors import OperatorError
from openbell_server.domain.identifiers import ActionId, IntentId
from openbell_server.domain.orders.action_lifecycle import ActionState

_queries = named_queries.load("action_operators")


@dataclass(frozen=True, slots=True)
class PostgresActionOperators(OperatorStore):
    async def list_in_doubt(self, states: Iterable[ActionState], row_limit: int) -> list[Facts]:
        """Actions past their door without an outcome, the oldest doubt first."""
        return await self._list(_queries.list_in_doubt_across_organizations, states=list(states), row_limit=row_limit)

    async def settle(self, action_id: ActionId, verdict: Verdict) -> Facts:
        """Returns the action afterwards; if its state did not change, nothing is audited."""
        row = await self._find(_queries.find_action_across_organizations, action_id=action_id)
        if row is None:
            raise OperatorError(f"There is no action {action_id}: see `openbell-server actions list --unknown`.")
        account = BrokerAccount(row["organization_id"], row["account_id"], row["broker"], row["slot"])
        try:
            return await self._settle(account, row["intent_id"], action_id, verdict)
        except asyncpg.InsufficientPrivilegeError as error:
            raise OperatorError(
                "This login may not write an account's record: use the one that runs `openbell-server migrate`, or"
                " grant openbell_execution to yours."
            ) from error

    async def _settle(
        self, account: BrokerAccount, intent_id: IntentId, action_id: ActionId, verdict: Verdict
    ) -> Facts:
        (audit_id,) = await DatabaseClock(self.pool).new_ids(1)
        async with PostgresExecutionStore(self.pool).account_transaction(account) as locked:
            before = await settle_by_hand(locked, intent_id, action_id, verdict)
            (after,) = [each for each in await locked.of_intents([intent_id]) if each.action_id == action_id]
            if after.state is not before.state:
                await act_as(locked.connection, Role.OPERATOR)
                await self._audit(
                    locked.connection,
                    account.organization_id,
                    audit_id,
                    "actions settle",
                    action_id,
                    _facts(before),
                    {**_facts(after), "because": verdict.because},
                )
                await act_as(locked.connection, Role.EXECUTION)
        return {
            "action_id": str(action_id),
            "intent_id": str(intent_id),
            "account_id": str(account.account_id),
            "organization_id": str(account.organization_id),
            "action_type": after.action_type,
            **_facts(after),
            "settled_now": after.state is not before.state,
        }


def _facts(action: TrackedAction) -> Facts:
    return {
        "status": action.state,
        "order": action.order.standing,
        "order_closed_as": action.order.close_reason,
        "broker_order_ids": list(action.order.broker_order_ids),
    }
