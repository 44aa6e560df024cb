"""Find out what became of actions that passed the door without an outcome: ask the broker, never send."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from openbell_server.application.execute_action import CALL_SECONDS, record
from openbell_server.application.ports.broker import BrokerSession
from openbell_server.application.ports.execution import BrokerAccount, ExecutionStore, TrackedAction
from openbell_server.application.ports.hints import Hints
from openbell_server.application.track_orders import TrackOrders
from openbell_server.domain.action_lifecycle import ActionState
from openbell_server.domain.action_outcomes import after_absence, after_outcome
from openbell_server.domain.broker_orders import OrderReport, Unknown
from openbell_server.domain.identifiers import client_order_id
from openbell_server.domain.intents import ActionType

# Longer than any call of a living executor, so that only an abandoned action is found in DISPATCHING.
STUCK_SECONDS: Final = CALL_SECONDS + 1.0
MISSES_TO_PROVE: Final = 2
MISS_SPACING_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class SettleUnknown:
    """Probes, keeps the evidence, and settles only on what the broker says."""

    store: ExecutionStore
    track: TrackOrders
    hints: Hints

    async def __call__(self, account: BrokerAccount, session: BrokerSession, settle_seconds: float) -> None:
        """Look at every action of the account that is in doubt."""
        for action in await self._in_doubt(account):
            report = await session.find(account.account_id, client_order_id(action.order_action_id))
            if report is not None:
                await self.track(account, [report])
            await self._keep_evidence(account, action, report, settle_seconds)
        self.hints.events_were_written([account.account_id])

    async def _in_doubt(self, account: BrokerAccount) -> list[TrackedAction]:
        """Unknown actions; those abandoned in DISPATCHING become UNKNOWN first, so that the doubt is visible."""
        doubtful = []
        async with self.store.account_transaction(account) as transaction:
            for action in await transaction.unsettled():
                started = action.send_started_at
                if action.state is ActionState.UNKNOWN:
                    doubtful.append(action)
                elif (
                    action.state is ActionState.DISPATCHING
                    and started is not None
                    and started < transaction.now - timedelta(seconds=STUCK_SECONDS)
                ):
                    lost = Unknown("whoever sent it ended before recording an answer")
                    await record(
                        transaction, action, after_outcome(action.action_type, action.state, action.order, lost)
                    )
                    doubtful.append(action)
        return doubtful

    async def _keep_evidence(
        self, account: BrokerAccount, probed: TrackedAction, report: OrderReport | None, settle_seconds: float
    ) -> None:
        """Store the look-up; two misses after every delay bound has passed prove that the command never arrived."""
        async with self.store.account_transaction(account) as transaction:
            for action in await transaction.of_intents([probed.intent_id]):
                if action.action_id != probed.action_id or action.state is not ActionState.UNKNOWN:
                    continue
                # A cancel is at the broker once its order is closed, and track() settles it then.
                found = report is not None and action.action_type is ActionType.CREATE
                await transaction.add_probe(action.action_id, found=found)
                assert action.send_started_at is not None
                proof_from = action.send_started_at + timedelta(seconds=settle_seconds)
                misses = [at for at in action.misses if at >= proof_from]
                spaced = misses and transaction.now - misses[0] >= timedelta(seconds=MISS_SPACING_SECONDS)
                if not found and transaction.now >= proof_from and len(misses) + 1 >= MISSES_TO_PROVE and spaced:
                    await record(transaction, action, after_absence(action.action_type, action.order))
