"""Flag actions whose outcome stays unknown for operators, even if the broker is unreachable."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from openbell_server.application.crash_points import crash_point
from openbell_server.application.events.account_log import log_doubt
from openbell_server.application.execution.execute_action import CALL_SECONDS, DOOR_SECONDS
from openbell_server.application.execution.ports import ExecutionStore
from openbell_server.application.execution.record_outcomes import record
from openbell_server.application.ports.account_transaction import AccountTransaction, BrokerAccount, TrackedAction
from openbell_server.application.ports.broker import BrokerCapabilities
from openbell_server.application.ports.hints import Hints
from openbell_server.domain.identifiers import ActionId
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.action_outcomes import NEEDS_ATTENTION, after_outcome
from openbell_server.domain.orders.broker_reports import Unknown

# Longer than any call of a running executor, so that only abandoned actions are still in DISPATCHING.
STUCK_SECONDS: Final = DOOR_SECONDS + CALL_SECONDS + 1.0
# Together with STUCK_SECONDS and a sweep this is below the promised 30 s.
FLAG_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class FlagUnknown:
    """Uses the database only."""

    store: ExecutionStore
    hints: Hints

    async def __call__(self, account: BrokerAccount, capabilities: BrokerCapabilities) -> None:
        """Make abandoned actions UNKNOWN, and flag actions that are UNKNOWN for FLAG_SECONDS."""
        async with self.store.account_transaction(account) as transaction:
            unseen = await transaction.to_flag(STUCK_SECONDS, FLAG_SECONDS)
            await doubt_abandoned(transaction, unseen)
            for action in unseen:
                if action.state is ActionState.UNKNOWN:
                    await flag(transaction, action, capabilities)
        self.hints.events_were_written([account.account_id])


async def doubt_abandoned(transaction: AccountTransaction, doubtful: Sequence[TrackedAction]) -> set[ActionId]:
    """Make actions UNKNOWN whose door opened more than STUCK_SECONDS ago; returns their ids."""
    abandoned = set()
    limit = transaction.now - timedelta(seconds=STUCK_SECONDS)
    for action in doubtful:
        if action.state is ActionState.UNKNOWN or action.send_started_at is None or action.send_started_at >= limit:
            continue
        lost = Unknown("whoever sent it ended before recording an answer")
        settlement = after_outcome(action.action_type, action.state, action.order, lost, action.replacement)
        await record(transaction, action, settlement)
        crash_point("executor.inside_doubt")
        abandoned.add(action.action_id)
    return abandoned


async def flag(transaction: AccountTransaction, action: TrackedAction, capabilities: BrokerCapabilities) -> None:
    """Flag an action for operators, once."""
    if action.flagged_at is None:
        flagged_at = await transaction.flag_action(action.action_id)
        log_doubt(transaction, action, NEEDS_ATTENTION, flagged_at, capabilities.settles_by(action.action_type))
