"""Tell people of every action in doubt that does not settle soon, whether or not its broker can be reached."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from openbell_server.application.account_log import log_doubt
from openbell_server.application.crash_points import crash_point
from openbell_server.application.execute_action import CALL_SECONDS, DOOR_SECONDS
from openbell_server.application.ports.broker import BrokerCapabilities
from openbell_server.application.ports.execution import (
    AccountTransaction,
    BrokerAccount,
    ExecutionStore,
    TrackedAction,
)
from openbell_server.application.ports.hints import Hints
from openbell_server.application.record_answers import record
from openbell_server.domain.action_lifecycle import ActionState
from openbell_server.domain.action_outcomes import NEEDS_ATTENTION, after_outcome
from openbell_server.domain.broker_orders import Unknown
from openbell_server.domain.identifiers import ActionId

# Longer than any call of a living executor, so that only an abandoned action is found in DISPATCHING.
STUCK_SECONDS: Final = DOOR_SECONDS + CALL_SECONDS + 1.0
# With the time that an abandoned action stays in DISPATCHING and a sweep, less than the thirty seconds of the promise.
FLAG_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class FlagUnknown:
    """Shows doubt, and asks for attention; it needs the database only."""

    store: ExecutionStore
    hints: Hints

    async def __call__(self, account: BrokerAccount, capabilities: BrokerCapabilities) -> None:
        """Make abandoned actions UNKNOWN, and flag those that have been so for long."""
        async with self.store.account_transaction(account) as transaction:
            unseen = await transaction.to_flag(STUCK_SECONDS, FLAG_SECONDS)
            await doubt_abandoned(transaction, unseen)
            for action in unseen:
                if action.state is ActionState.UNKNOWN:
                    await flag(transaction, action, capabilities)
        self.hints.events_were_written([account.account_id])


async def doubt_abandoned(transaction: AccountTransaction, doubtful: Sequence[TrackedAction]) -> set[ActionId]:
    """Make UNKNOWN what passed its door so long ago that nobody will record an outcome; which they are."""
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
    """Ask somebody to look at an action in doubt, once."""
    if action.flagged_at is None:
        flagged_at = await transaction.flag_action(action.action_id)
        log_doubt(transaction, action, NEEDS_ATTENTION, flagged_at, capabilities.settles_by(action.action_type))
