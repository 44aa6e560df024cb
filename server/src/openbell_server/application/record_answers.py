"""Record what brokers answered: the answers for one account that came meanwhile in one transaction."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from openbell_server.application.account_log import log_action, log_order
from openbell_server.application.crash_points import crash_point
from openbell_server.application.ports.execution import (
    AccountTransaction,
    BrokerAccount,
    ExecutionStore,
    TrackedAction,
)
from openbell_server.domain.action_lifecycle import ActionState
from openbell_server.domain.action_outcomes import Settlement, after_outcome, after_resend, with_doubt
from openbell_server.domain.broker_orders import Outcome
from openbell_server.domain.identifiers import AccountId, IntentId

# How long an answer is worth keeping for a database that is away; with door and call, less than a drain takes at most.
RECORD_SECONDS: Final = 4.0
RECORD_RETRY_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Door:
    """An action that passed the door, in the hands of the one who opened it."""

    account: BrokerAccount
    action: TrackedAction
    attempt_id: UUID
    opened_at: datetime
    opened_monotonic: float


@dataclass(slots=True, eq=False)
class _Answer:
    door: Door
    outcome: Outcome
    # Whether an action of the account waits for its door, once this was recorded; or why it was not.
    waits: bool | None = None
    error: Exception | None = None


@dataclass(slots=True, eq=False)
class _Line:
    """Answers for one account that nobody records yet."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    answers: list[_Answer] = field(default_factory=list)


@dataclass(slots=True)
class RecordAnswers:
    """Records answers; whoever waits for its turn at an account has its answer recorded with that of another."""

    store: ExecutionStore
    monotonic: Callable[[], float]
    # Errors of the store that pass.
    unavailable: tuple[type[Exception], ...]
    counts: Counter[str]
    _lines: dict[AccountId, _Line] = field(default_factory=dict)

    async def __call__(self, door: Door, outcome: Outcome) -> bool:
        """Record an answer, again while the store is away: one that was recorded unnoticed changes nothing anew.

        Whether an action of the account waits for its door.
        """
        answered = self.monotonic()
        while True:
            try:
                return await self._in_turn(_Answer(door, outcome))
            except self.unavailable:
                # Then it is lost, and whoever finds the action past its door asks the broker.
                if self.monotonic() - answered > RECORD_SECONDS:
                    raise
            await asyncio.sleep(RECORD_RETRY_SECONDS)

    async def _in_turn(self, answer: _Answer) -> bool:
        account = answer.door.account
        line = self._lines.setdefault(account.account_id, _Line())
        line.answers.append(answer)
        async with line.turn:
            # The one before has done it, unless this one came later.
            if answer in line.answers:
                taken, line.answers = line.answers, []
                await self._together(account, taken)
            if not line.answers and self._lines.get(account.account_id) is line:
                del self._lines[account.account_id]
        if answer.error is not None:
            raise answer.error
        assert answer.waits is not None
        return answer.waits

    async def _together(self, account: BrokerAccount, answers: Sequence[_Answer]) -> None:
        """All or none of them; where that fails for good, each by itself, so that one's fault is no other's."""
        try:
            waits = await self._record(account, answers)
        except Exception as error:  # noqa: BLE001 - whoever waits for it raises it
            if len(answers) > 1 and not isinstance(error, self.unavailable):
                for answer in answers:
                    await self._together(account, [answer])
                return
            for answer in answers:
                answer.error = error
        else:
            for answer in answers:
                answer.waits = waits

    async def _record(self, account: BrokerAccount, answers: Sequence[_Answer]) -> bool:
        settled: list[ActionState] = []
        async with self.store.account_transaction(account) as transaction:
            left = list(answers)
            while left:
                # Of one intent one after the other: each is judged by what the one before it left.
                now = {answer.door.action.intent_id: answer for answer in reversed(left)}
                left = [answer for answer in left if answer is not now[answer.door.action.intent_id]]
                settled += await _settle(transaction, now)
            waits = await transaction.has_queued()
            crash_point("executor.inside_outcome")
        self.counts.update(settled)
        return waits


async def _settle(transaction: AccountTransaction, answers: dict[IntentId, _Answer]) -> list[ActionState]:
    """Settle what was not settled meanwhile; the states in which it was."""
    found = await transaction.of_intents(list(answers))
    settled = []
    for intent_id, answer in answers.items():
        history = [action for action in found if action.intent_id == intent_id]
        for action in history:
            if action.action_id == answer.door.action.action_id and action.attempt_id == answer.door.attempt_id:
                settlement = _settlement(action, answer.outcome, history)
                await record(transaction, action, settlement, history)
                if settlement.state is not None:
                    settled.append(settlement.state)
    return settled


def _settlement(action: TrackedAction, outcome: Outcome, history: Sequence[TrackedAction]) -> Settlement:
    if action.state is ActionState.UNKNOWN and action.resends:
        return after_resend(action.action_type, action.state, action.order, outcome, action.replacement)
    return after_outcome(
        action.action_type,
        action.state,
        action.order,
        outcome,
        action.replacement,
        unseen=was_unseen(action, history),
    )


def was_unseen(action: TrackedAction, history: Sequence[TrackedAction]) -> bool:
    """Whether the intent's create was in doubt when this action of it was written."""
    created = history[0]
    assert action.send_started_at is not None
    return created is not action and (created.settled_at is None or created.settled_at > action.send_started_at)


async def record(
    transaction: AccountTransaction,
    action: TrackedAction,
    settlement: Settlement,
    history: Sequence[TrackedAction] = (),
) -> None:
    """Write a settlement and log it; what other actions of the intent leave in doubt stays so."""
    others = [(other.action_type, other.state) for other in history if other.action_id != action.action_id]
    settlement = replace(settlement, order=with_doubt(settlement.order, others))
    if settlement.order != action.order:
        await transaction.save_order(action, settlement.order)
    if settlement.state is not None:
        await transaction.save_action(action, settlement.state, settlement.reason)
        log_action(transaction, action, settlement.state, settlement.reason)
    if settlement.order != action.order:
        log_order(transaction, action, settlement.order, settlement.reason, settlement.notices)
