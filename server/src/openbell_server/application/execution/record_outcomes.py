"""Record broker answers; answers for one account that arrive together are recorded in one transaction."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from openbell_server.application.crash_points import crash_point
from openbell_server.application.events.account_log import log_action, log_order
from openbell_server.application.execution.ports import ExecutionStore
from openbell_server.application.ports.account_transaction import AccountTransaction, BrokerAccount, TrackedAction
from openbell_server.domain.identifiers import AccountId, IntentId
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.action_outcomes import Settlement, after_outcome, after_resend, with_doubt
from openbell_server.domain.orders.broker_reports import Outcome

# How long a write is retried while the database is unavailable; with door and call it must end within a drain.
RECORD_SECONDS: Final = 4.0
RECORD_RETRY_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Door:
    """An action whose door this executor opened."""

    account: BrokerAccount
    action: TrackedAction
    attempt_id: UUID
    opened_at: datetime
    opened_monotonic: float


@dataclass(slots=True, eq=False)
class _Answer:
    door: Door
    outcome: Outcome
    # Whether the account has queued actions after this was recorded, or the error.
    waits: bool | None = None
    error: Exception | None = None


@dataclass(slots=True, eq=False)
class _Line:
    """Answers for one account that wait to be recorded."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    answers: list[_Answer] = field(default_factory=list)


@dataclass(slots=True)
class RecordOutcomes:
    """Group commit per account: answers that wait for the account are recorded by the next transaction."""

    store: ExecutionStore
    monotonic: Callable[[], float]
    # Store errors after which a write is retried.
    unavailable: tuple[type[Exception], ...]
    counts: Counter[str]
    # Records an answer together with others of many accounts; returns None if that is not possible.
    in_tick: Callable[[Door, Outcome], Awaitable[TrackedAction | None]] | None = None
    _lines: dict[AccountId, _Line] = field(default_factory=dict)

    async def __call__(self, door: Door, outcome: Outcome) -> bool:
        """Record an answer and return whether the account has queued actions.

        Retried for RECORD_SECONDS while the store is unavailable; recording an answer twice changes nothing.
        """
        answered = self.monotonic()
        written = None if self.in_tick is None else await self.in_tick(door, outcome)
        if written is not None:
            self.counts[written.state] += 1
            # Whoever records an action later notifies; the intent has no other.
            return False
        while True:
            try:
                return await self._in_turn(_Answer(door, outcome))
            except self.unavailable:
                # The answer is lost; a later sweep finds the action in DISPATCHING and queries the broker.
                if self.monotonic() - answered > RECORD_SECONDS:
                    raise
            await asyncio.sleep(RECORD_RETRY_SECONDS)

    async def _in_turn(self, answer: _Answer) -> bool:
        account = answer.door.account
        line = self._lines.setdefault(account.account_id, _Line())
        line.answers.append(answer)
        async with line.turn:
            # The transaction before may have recorded it already.
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
        """Record all in one transaction; if that fails permanently, each alone, so that one error affects only one."""
        try:
            waits = await self._record(account, answers)
        except Exception as error:  # noqa: BLE001 - raised by the caller that waits
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
                # Answers of one intent one after the other, because each depends on the state after the one before.
                now = {answer.door.action.intent_id: answer for answer in reversed(left)}
                left = [answer for answer in left if answer is not now[answer.door.action.intent_id]]
                settled += await _settle(transaction, now)
            waits = await transaction.has_queued()
            crash_point("executor.inside_outcome")
        self.counts.update(settled)
        return waits


async def _settle(transaction: AccountTransaction, answers: dict[IntentId, _Answer]) -> list[ActionState]:
    """Settle actions that are not settled yet; returns the new states."""
    found = await transaction.of_intents(list(answers))
    settled = []
    for intent_id, answer in answers.items():
        history = [action for action in found if action.intent_id == intent_id]
        for action in history:
            if action.action_id == answer.door.action.action_id and action.attempt_id == answer.door.attempt_id:
                settlement = settlement_of(action, answer.outcome, history)
                await record(transaction, action, settlement, history)
                if settlement.state is not None:
                    settled.append(settlement.state)
    return settled


def settlement_of(action: TrackedAction, outcome: Outcome, history: Sequence[TrackedAction]) -> Settlement:
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
    """Whether the outcome of the intent's create was unknown when this action was sent."""
    created = history[0]
    assert action.send_started_at is not None
    return created is not action and (created.settled_at is None or created.settled_at > action.send_started_at)


async def record(
    transaction: AccountTransaction,
    action: TrackedAction,
    settlement: Settlement,
    history: Sequence[TrackedAction] = (),
) -> None:
    """Write and log a settlement; the order stays uncertain while other actions of the intent are unknown."""
    others = [(other.action_type, other.state) for other in history if other.action_id != action.action_id]
    settlement = replace(settlement, order=with_doubt(settlement.order, others))
    if settlement.order != action.order:
        await transaction.save_order(action, settlement.order)
    if settlement.state is not None:
        await transaction.save_action(action, settlement.state, settlement.reason)
        log_action(transaction, action, settlement.state, settlement.reason)
    if settlement.order != action.order:
        log_order(transaction, action, settlement.order, settlement.reason, settlement.notices)
