"""Find out what became of actions that passed the door without an outcome: ask the broker, send no order again."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from openbell_server.application.crash_points import crash_point
from openbell_server.application.execute_action import CALL_SECONDS, DOOR_SECONDS, record
from openbell_server.application.ports.broker import BrokerCapabilities, BrokerSession
from openbell_server.application.ports.execution import BrokerAccount, ExecutionStore, TrackedAction
from openbell_server.application.ports.hints import Hints
from openbell_server.application.track_orders import TrackOrders
from openbell_server.domain.action_lifecycle import ActionState
from openbell_server.domain.action_outcomes import after_look, after_outcome, is_found
from openbell_server.domain.broker_orders import NotSent, OrderReport, Unknown
from openbell_server.domain.intents import ActionType

# Longer than any call of a living executor, so that only an abandoned action is found in DISPATCHING.
STUCK_SECONDS: Final = DOOR_SECONDS + CALL_SECONDS + 1.0
MISS_SPACING_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class SettleUnknown:
    """Probes, keeps the evidence, and settles only on what the broker says."""

    store: ExecutionStore
    track: TrackOrders
    hints: Hints

    async def __call__(self, account: BrokerAccount, session: BrokerSession, capabilities: BrokerCapabilities) -> None:
        """Look at every action of the account that is in doubt; one that cannot be looked up keeps no other waiting."""
        doubtful, asked_at = await self._in_doubt(account)
        failed: list[Exception] = []
        for action in doubtful:
            try:
                await self._probe(account, session, capabilities, action, asked_at)
            except Exception as error:  # noqa: BLE001 - told at the end, when every other action had its turn
                failed.append(error)
        self.hints.events_were_written([account.account_id])
        if failed:
            raise failed[0]

    async def _probe(
        self,
        account: BrokerAccount,
        session: BrokerSession,
        capabilities: BrokerCapabilities,
        action: TrackedAction,
        asked_at: datetime,
    ) -> None:
        async with asyncio.timeout(CALL_SECONDS):
            report = await session.find(account.account_id, action.order_name)
        crash_point("executor.after_probe")
        if report is not None:
            await self.track(account, [report])
        if await self._keep_evidence(account, action, report, capabilities, asked_at):
            await self._repeat_cancel(account, session, action)

    async def _in_doubt(self, account: BrokerAccount) -> tuple[list[TrackedAction], datetime]:
        """Unknown actions, and the time; those abandoned in DISPATCHING become UNKNOWN first: the doubt is visible."""
        doubtful = []
        async with self.store.account_transaction(account) as transaction:
            abandoned = transaction.now - timedelta(seconds=STUCK_SECONDS)
            for action in await transaction.in_doubt():
                if action.state is ActionState.UNKNOWN:
                    doubtful.append(action)
                elif action.send_started_at is not None and action.send_started_at < abandoned:
                    lost = Unknown("whoever sent it ended before recording an answer")
                    settlement = after_outcome(action.action_type, action.state, action.order, lost, action.replacement)
                    await record(transaction, action, settlement)
                    crash_point("executor.inside_doubt")
                    doubtful.append(action)
            return doubtful, transaction.now

    async def _keep_evidence(
        self,
        account: BrokerAccount,
        probed: TrackedAction,
        report: OrderReport | None,
        capabilities: BrokerCapabilities,
        asked_at: datetime,
    ) -> bool:
        """Store the look-up; two misses after every delay bound has passed prove that a command never arrived.

        A replace is found where its order shows what it asked for; that too counts only once no look-up can be old.
        True where the broker still works on an order whose cancel may be repeated. What counts is when the look-up
        was begun: a pause between asking and recording makes no old answer new.
        """
        async with self.store.account_transaction(account) as transaction:
            for action in await transaction.of_intents([probed.intent_id]):
                if action.action_id != probed.action_id or action.state is not ActionState.UNKNOWN:
                    continue
                found = is_found(report, action.replacement)
                await transaction.add_probe(action.action_id, asked_at, found=found)
                crash_point("executor.inside_evidence")
                assert action.send_started_at is not None
                proof_from = action.send_started_at + timedelta(seconds=capabilities.settle_seconds)
                if asked_at < proof_from:
                    continue
                if action.action_type is ActionType.CANCEL:
                    # What became of a cancel shows in its order only: it ends when that does, or by asking again.
                    return report is not None and capabilities.repeats_cancels
                misses = [at for at in action.misses if at >= proof_from]
                spaced = bool(misses) and asked_at - misses[0] >= timedelta(seconds=MISS_SPACING_SECONDS)
                settlement = after_look(action.order, report, action.replacement, missed_before=spaced)
                await record(transaction, action, settlement)
        return False

    async def _repeat_cancel(self, account: BrokerAccount, session: BrokerSession, probed: TrackedAction) -> None:
        async with self.store.account_transaction(account) as transaction:
            valid_until = transaction.now + timedelta(seconds=DOOR_SECONDS)
        async with asyncio.timeout(CALL_SECONDS):
            outcome = await session.cancel(account.account_id, probed.order_name, valid_until)
        async with self.store.account_transaction(account) as transaction:
            for action in await transaction.of_intents([probed.intent_id]):
                if action.action_id == probed.action_id and not isinstance(outcome, NotSent):
                    settlement = after_outcome(action.action_type, action.state, action.order, outcome)
                    await record(transaction, action, settlement)
