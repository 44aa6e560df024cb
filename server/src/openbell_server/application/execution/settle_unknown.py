"""Settle actions with an unknown outcome by queries to the broker, according to the guarantees that it declares.

A command is sent again only if it provably never arrived and the broker enforces its id; a cancel only if repeating it
is harmless.
"""

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from openbell_server.application.controls.recheck_before_send import recheck
from openbell_server.application.crash_points import crash_point
from openbell_server.application.events.account_log import log_doubt
from openbell_server.application.execution.broker_sign_ins import SendPermission
from openbell_server.application.execution.execute_action import CALL_SECONDS, DOOR_SECONDS, ExecuteAction
from openbell_server.application.execution.flag_unknown import doubt_abandoned, flag
from openbell_server.application.execution.ports import ExecutionStore
from openbell_server.application.execution.record_outcomes import Door, record, was_unseen
from openbell_server.application.execution.track_orders import TrackOrders
from openbell_server.application.ports.account_transaction import AccountTransaction, BrokerAccount, TrackedAction
from openbell_server.application.ports.broker import BrokerCapabilities, BrokerSession
from openbell_server.application.ports.hints import Hints
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.action_outcomes import (
    WRITTEN_AGAIN,
    after_look,
    after_resend,
    cancel_of_closed,
    is_found,
)
from openbell_server.domain.orders.broker_guarantees import RESENDS_MAX, LookUp
from openbell_server.domain.orders.broker_reports import OrderReport, Outcome
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import Standing

MISS_SPACING_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class SettleUnknown:
    """Queries the broker, records each look-up as evidence, and settles only by the broker's answers."""

    store: ExecutionStore
    track: TrackOrders
    hints: Hints
    execute: ExecuteAction

    async def __call__(self, account: BrokerAccount, session: BrokerSession, capabilities: BrokerCapabilities) -> None:
        """Look up every unknown action of the account; an error of one look-up does not stop the others."""
        doubtful, asked_at = await self._in_doubt(account, capabilities)
        look = _Look(self, account, session, capabilities, asked_at)
        failed: list[BaseException] = []
        again: list[asyncio.Task[Outcome]] = []
        for action in doubtful:
            try:
                door = await look.at(action)
            except Exception as error:  # noqa: BLE001 - raised after the other actions were looked up
                failed.append(error)
                continue
            if door is not None:
                again.append(asyncio.ensure_future(self.execute.dispatch(session, door)))
            if len(again) >= capabilities.in_flight_max:
                break
        ends = await asyncio.gather(*again, return_exceptions=True)
        failed += [end for end in ends if isinstance(end, BaseException)]
        self.hints.events_were_written([account.account_id])
        if failed:
            raise failed[0]

    async def _in_doubt(
        self, account: BrokerAccount, capabilities: BrokerCapabilities
    ) -> tuple[list[TrackedAction], datetime]:
        """Unknown actions and the database's time; actions abandoned in DISPATCHING become UNKNOWN first.

        An action that the broker cannot look up waits for a report, and is flagged for operators at once.
        """
        async with self.store.account_transaction(account) as transaction:
            found = await transaction.in_doubt()
            abandoned = await doubt_abandoned(transaction, found)
            doubtful = []
            for action in found:
                is_unknown = action.state is ActionState.UNKNOWN
                if capabilities.look_up is LookUp.BROKER_ID and not action.order.broker_order_ids:
                    if is_unknown:
                        await flag(transaction, action, capabilities)
                elif is_unknown or action.action_id in abandoned:
                    doubtful.append(action)
            return doubtful, transaction.now


@dataclass(frozen=True, slots=True)
class _Look:
    """One round of look-ups for an account."""

    settle: SettleUnknown
    account: BrokerAccount
    session: BrokerSession
    capabilities: BrokerCapabilities
    # When the round began, so that a pause before recording does not make an old answer look new.
    asked_at: datetime

    async def at(self, action: TrackedAction) -> Door | None:
        """Look an action up and record what that proves; returns a new door if the command must be sent again."""
        async with asyncio.timeout(CALL_SECONDS):
            report = await self.session.find(self.account.account_id, action.order_name)
        crash_point("executor.after_probe")
        if report is not None:
            await self.settle.track(self.account, [report])
        door = None
        async with self.settle.store.account_transaction(self.account) as transaction:
            history = await transaction.of_intents([action.intent_id])
            probed = next(each for each in history if each.action_id == action.action_id)
            if probed.state is not ActionState.UNKNOWN:
                return None
            if probed.action_type is ActionType.CANCEL and probed.order.standing is Standing.CLOSED:
                await record(transaction, probed, cancel_of_closed(probed.order))
                return None
            await transaction.add_probe(action.action_id, self.asked_at, found=is_found(report, probed.replacement))
            crash_point("executor.inside_evidence")
            assert probed.send_started_at is not None
            proof_from = probed.send_started_at + timedelta(seconds=self.capabilities.settle_seconds)
            # A cancel that was sent before its order was reported does not keep the order pending.
            at_sight = probed.action_type is ActionType.CANCEL and was_unseen(probed, history)
            if self.asked_at < proof_from and not at_sight:
                return None
            if probed.action_type is not ActionType.CANCEL:
                door = await self._conclude(transaction, probed, history, report, proof_from)
        if action.action_type is ActionType.CANCEL and report is not None and self.capabilities.repeats_cancels:
            # Only the order shows the outcome of a cancel: it settles when the order closes, or by a repeated cancel.
            await self._repeat_cancel(action)
        if door is not None:
            crash_point("executor.after_resend")
        return door

    async def _conclude(
        self,
        transaction: AccountTransaction,
        action: TrackedAction,
        history: list[TrackedAction],
        report: OrderReport | None,
        proof_from: datetime,
    ) -> Door | None:
        """Settle by a look-up after settle_seconds; returns a door if the command never arrived and is sent again.

        Two misses are proof only if the broker also lists closed orders. A replace is found if its order shows the new
        terms; that too counts only after settle_seconds.
        """
        misses = [at for at in action.misses if at >= proof_from]
        spaced = bool(misses) and self.asked_at - misses[0] >= timedelta(seconds=MISS_SPACING_SECONDS)
        settlement = after_look(action.order, report, action.replacement, missed_before=spaced)
        if report is None and self.capabilities.look_up is not LookUp.EVERY_ORDER:
            if spaced:
                await flag(transaction, action, self.capabilities)
            return None
        if settlement.state is ActionState.FAILED and self._may_be_repeated(action, history):
            passage = await self.settle.execute.sessions.passage(self.account, transaction)
            if transaction.hold is not None or passage is SendPermission.WAIT:
                return None
            judged = replace(action, at_door=await transaction.door_facts(action))
            refused = await recheck(transaction, judged, account_ready=passage is SendPermission.OPEN)
            if refused is None and transaction.halt_code is None:
                return await self._resend(transaction, action)
        await record(transaction, action, settlement, history)
        return None

    def _may_be_repeated(self, action: TrackedAction, history: list[TrackedAction]) -> bool:
        """Whether the broker enforces the command's id, the command is still needed, and resends are left."""
        # A later cancel makes the command needless, whatever the outcome of the cancel.
        is_cancelled = any(a.action_type is ActionType.CANCEL and a.seq > action.seq for a in history)
        is_needed = action.order.standing is not Standing.CLOSED and (
            action.replacement is None or action.replacement.quantity > action.order.filled_quantity
        )
        # An order from before a restore was sent under the id of a command that the database lost.
        is_its_own = action.action_type is not ActionType.CREATE or action.order_action_id == action.action_id
        return (
            self.capabilities.may_repeat(action.action_type)
            and action.resends < RESENDS_MAX
            and is_needed
            and is_its_own
            and not is_cancelled
        )

    async def _resend(self, transaction: AccountTransaction, action: TrackedAction) -> Door:
        """Open a door like the first one: committed before anything is sent, with clocks that start now."""
        attempt_id, opened_monotonic = self.settle.execute.new_id(), self.settle.execute.monotonic()
        opened_at = await transaction.record_resend(action, attempt_id)
        crash_point("executor.inside_resend")
        again = replace(action, attempt_id=attempt_id, resends=action.writes)
        log_doubt(transaction, again, WRITTEN_AGAIN, again.flagged_at, self.capabilities.settles_by(action.action_type))
        self.settle.execute.counts["resends"] += 1
        return Door(self.account, again, attempt_id, opened_at, opened_monotonic)

    async def _repeat_cancel(self, probed: TrackedAction) -> None:
        async with self.settle.store.account_transaction(self.account) as transaction:
            await transaction.count_repeat(probed)
            valid_until = transaction.now + timedelta(seconds=DOOR_SECONDS)
        async with asyncio.timeout(CALL_SECONDS):
            outcome = await self.session.cancel(self.account.account_id, probed.order_name, valid_until)
        async with self.settle.store.account_transaction(self.account) as transaction:
            history = await transaction.of_intents([probed.intent_id])
            for action in history:
                if action.action_id == probed.action_id:
                    settlement = after_resend(action.action_type, action.state, action.order, outcome)
                    await record(transaction, action, settlement, history)
