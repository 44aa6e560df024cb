"""Take queued actions of an account through the door to its broker, and record what the broker answered."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Protocol
from uuid import UUID

from openbell_server.application.account_log import log_order
from openbell_server.application.crash_points import crash_point
from openbell_server.application.import_orders import release_orders
from openbell_server.application.judge_at_door import refusal
from openbell_server.application.keep_sessions import Passage
from openbell_server.application.ports.broker import BrokerOrder, BrokerReplacement, BrokerSession
from openbell_server.application.ports.execution import (
    AccountTransaction,
    BrokerAccount,
    ExecutionStore,
    TrackedAction,
)
from openbell_server.application.ports.hints import Hints
from openbell_server.application.record_answers import Door, RecordAnswers, record
from openbell_server.domain.action_lifecycle import ActionState, Reason
from openbell_server.domain.action_outcomes import (
    FORGOTTEN,
    NOTHING_SENT,
    ORDER_TERMINAL,
    QUANTITY_NOT_ABOVE_FILLED,
    SUPERSEDED,
    Settlement,
    past_door,
)
from openbell_server.domain.broker_orders import NotSent, Outcome, Unknown
from openbell_server.domain.identifiers import ActionId, client_order_id
from openbell_server.domain.intents import ActionType
from openbell_server.domain.order_aggregate import Closed, CloseReason, Doubted, ReplaceAnswered, Standing, advance

# A command is written within this time of its door, or not at all: a paused worker cannot wake up and trade.
DOOR_SECONDS: Final = 2.0
CALL_SECONDS: Final = 3.0
NOT_SENT_RETRY_SECONDS: Final = 0.2
# Actions that may not pass any more are skipped at once, this many rounds of them; the sweep comes back for the rest.
REFUSING_ROUNDS_MAX: Final = 100


class Fence(Protocol):
    """What keeps commands from being sent with a credential that is not the account's any more."""

    async def passage(self, account: BrokerAccount, transaction: AccountTransaction) -> Passage:
        """What may pass the account's door now, decided under its lock."""


@dataclass(frozen=True, slots=True)
class _Limits:
    """How many doors may open, how many of them for other than cancels, and what may be cancelled."""

    free: int
    commands: int
    cancels_unseen: bool


@dataclass(slots=True)
class ExecuteAction:
    """Opens doors, calls the broker, records outcomes."""

    store: ExecutionStore
    sessions: Fence
    hints: Hints
    new_id: Callable[[], UUID]
    monotonic: Callable[[], float]
    # Errors of the store that pass.
    unavailable: tuple[type[Exception], ...]
    # Since the process started: doors, and by state what became of the actions behind them.
    counts: Counter[str] = field(default_factory=Counter)
    answers: RecordAnswers = field(init=False)

    def __post_init__(self) -> None:
        """Nothing was answered yet."""
        self.answers = RecordAnswers(self.store, self.monotonic, self.unavailable, self.counts)

    async def open_doors(
        self,
        account: BrokerAccount,
        free: int,
        *,
        commands: int | None = None,
        cancels_unseen: bool = False,
        looked: Callable[[datetime], None] = lambda _: None,
    ) -> list[Door]:
        """Commit the door for the next actions of an account, at most as many as may be in flight.

        At most so many of them are other than cancels; orders that the broker has not shown yet are cancelled where
        it knows them by our id. When all that had been recorded by a moment was looked at, that moment is told.
        """
        doors: list[Door] = []
        limits = _Limits(free, free if commands is None else min(free, commands), cancels_unseen)
        for _ in range(REFUSING_ROUNDS_MAX):
            doors, refused, seen_to = await self._open_doors(account, limits)
            if seen_to is not None:
                looked(seen_to)
            self.counts["doors"] += len(doors)
            if doors or not refused:
                break
        return doors

    async def _open_doors(self, account: BrokerAccount, limits: "_Limits") -> tuple[list[Door], bool, datetime | None]:
        """One round, whether it met actions that may not pass any more, and up to when it saw what was recorded."""
        crash_point("executor.before_door")
        attempt_id = self.new_id()
        opened: dict[ActionId, datetime] = {}
        async with self.store.account_transaction(account) as transaction:
            if transaction.hold is not None:
                return [], False, None
            # Most have none: one short look instead of two long ones.
            has_cancels = await transaction.has_queued(cancels=True)
            skipped = await _skip_superseded(transaction, await transaction.superseded()) if has_cancels else 0
            passage = await self.sessions.passage(account, transaction)
            found = []
            if passage is not Passage.WAIT:
                found = await transaction.ready(
                    limits.free,
                    commands=limits.commands,
                    cancels=has_cancels and passage is Passage.OPEN,
                    cancels_unseen=limits.cancels_unseen,
                )
            if transaction.halt_code is not None:
                # What waits stays queued until an operator lifts the halt, and is judged then.
                found = [action for action in found if action.action_type is ActionType.CANCEL]
            ready = await _skip_needless(transaction, found)
            needless = len(found) - len(ready)
            adopted = await _adopt(transaction, ready, attempt_id)
            ready = [a for a in ready if a.action_id not in adopted]
            refused = await _skip_refused(transaction, ready, account_ready=passage is Passage.OPEN)
            ready = [a for a in ready if a.action_id not in refused]
            # Both clocks start under the lock: a long wait for it leaves the doors as fresh as they are.
            opened_monotonic = self.monotonic()
            if ready:
                opened = await transaction.open_doors([a.action_id for a in ready], attempt_id)
                crash_point("executor.inside_door")
            # Most wait since the command was recorded; what was not at the broker then waits from here on.
            waiting = [(action, past_door(action.action_type, action.order)) for action in ready]
            pending = [(action, order) for action, order in waiting if order != action.order]
            for action, order in pending:
                await transaction.save_order(action, order)
                log_order(transaction, action, order)
        if skipped or needless or adopted or refused or pending:
            self.hints.events_were_written([account.account_id])
        doors = [Door(account, action, attempt_id, opened[action.action_id], opened_monotonic) for action in ready]
        # What may not pass before a sign-in is looked at again after it.
        return doors, bool(refused) or needless > 0, None if passage is Passage.WAIT else transaction.now

    async def dispatch(
        self,
        session: BrokerSession,
        door: Door,
        hear: Callable[[Outcome], None] = lambda _: None,
        nothing_waits: Callable[[], None] = lambda: None,
    ) -> Outcome:
        """Call the broker once, and record and return its answer; nothing past the door is ever cancelled half-way.

        Whatever it says is heard at once: that it wants calm, too. When it was recorded and no action of the account
        waited for its door, that is told: whoever records one later tells of it.
        """
        crash_point("executor.after_door")
        outcome = await self._call(session, door, hear)
        crash_point("executor.after_answer")
        if not await self.answers(door, outcome):
            nothing_waits()
        crash_point("executor.after_outcome")
        self.hints.events_were_written([door.account.account_id])
        return outcome

    async def _call(self, session: BrokerSession, door: Door, hear: Callable[[Outcome], None]) -> Outcome:
        while True:
            if self.monotonic() - door.opened_monotonic > DOOR_SECONDS:
                return NotSent("the door was opened too long ago to write")
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    outcome = await _write(session, door)
            except TimeoutError:
                return Unknown(f"no answer within {CALL_SECONDS:g} s")
            except Exception as error:  # noqa: BLE001 - whatever went wrong, the command may have left
                return Unknown(f"{type(error).__name__}: {error}")
            hear(outcome)
            if not isinstance(outcome, NotSent):
                return outcome
            # Provably nothing was taken, so the one who opened the door may try again while it is fresh.
            wait = max(NOT_SENT_RETRY_SECONDS, outcome.retry_after or 0.0)
            if outcome.retry_after == 0 or self.monotonic() - door.opened_monotonic > DOOR_SECONDS - wait:
                return outcome
            await asyncio.sleep(wait)


async def _write(session: BrokerSession, door: Door) -> Outcome:
    action, terms = door.action, door.action.terms
    valid_until = door.opened_at + timedelta(seconds=DOOR_SECONDS)
    if action.action_type is ActionType.CANCEL:
        return await session.cancel(door.account.account_id, action.order_name, valid_until)
    if action.replacement is not None:
        return await session.replace(
            BrokerReplacement(
                account_id=door.account.account_id,
                order=action.order_name,
                client_order_id=client_order_id(action.action_id),
                terms=action.replacement,
                filled_quantity=action.order.filled_quantity,
                valid_until=valid_until,
            )
        )
    return await session.submit(
        BrokerOrder(
            account_id=door.account.account_id,
            client_order_id=action.order_name.client_order_id,
            symbol=terms.symbol,
            order_side=terms.order_side,
            order_type=terms.order_type,
            route_strategy=terms.route_strategy,
            quantity=action.order.quantity,
            limit_price=action.order.terms.limit_price,
            stop_price=action.order.terms.stop_price,
            time_in_force=action.order.terms.time_in_force,
            valid_until=valid_until,
        )
    )


async def _adopt(
    transaction: AccountTransaction, ready: list[TrackedAction], attempt_id: UUID
) -> dict[ActionId, ActionId]:
    """Send no order that the broker has from before a restore; what became of it is looked up as for any in doubt."""
    creates = [action for action in ready if action.action_type is ActionType.CREATE]
    if not transaction.was_restored or not creates:
        return {}
    adopted = await transaction.adopt_forgotten_orders([action.action_id for action in creates])
    if adopted:
        await transaction.open_doors(list(adopted), attempt_id)
        await release_orders(transaction, [client_order_id(known_as) for known_as in adopted.values()])
    for action in creates:
        if action.action_id in adopted:
            unknown = Settlement(ActionState.UNKNOWN, Reason(FORGOTTEN), advance(action.order, Doubted()))
            await record(transaction, replace(action, state=ActionState.DISPATCHING), unknown)
    return adopted


async def _skip_needless(transaction: AccountTransaction, ready: list[TrackedAction]) -> list[TrackedAction]:
    """Skip commands of orders that have ended, and replaces by a total that has filled; the others come back."""
    needed = []
    for action in ready:
        replacement = action.replacement
        if action.order.standing is Standing.CLOSED:
            await record(transaction, action, Settlement(ActionState.SKIPPED, Reason(ORDER_TERMINAL), action.order))
        elif replacement is not None and replacement.quantity <= action.order.filled_quantity:
            kept = advance(action.order, ReplaceAnswered(action.order.terms))
            await record(transaction, action, Settlement(ActionState.SKIPPED, Reason(QUANTITY_NOT_ABOVE_FILLED), kept))
        else:
            needed.append(action)
    return needed


async def _skip_superseded(transaction: AccountTransaction, needless: list[TrackedAction]) -> int:
    """Skip creates and replaces that are cancelled before they were sent, and the cancels of such creates; how many."""
    for action in needless:
        if action.action_type is ActionType.CREATE:
            closed = advance(action.order, Closed(CloseReason.SKIPPED))
            await record(transaction, action, Settlement(ActionState.SKIPPED, Reason(SUPERSEDED), closed))
        else:
            reason = Reason(SUPERSEDED if action.action_type is ActionType.REPLACE else NOTHING_SENT)
            await record(transaction, action, Settlement(ActionState.SKIPPED, reason, action.order))
    return len(needless)


async def _skip_refused(
    transaction: AccountTransaction, ready: list[TrackedAction], *, account_ready: bool
) -> set[ActionId]:
    """Skip what may not pass the door any more; each is judged when those before it are skipped or will pass."""
    refused = set()
    for action in ready:
        code = await refusal(transaction, action, account_ready=account_ready)
        if code is not None:
            order = action.order
            if action.action_type is ActionType.CREATE:
                order = advance(order, Closed(CloseReason.SKIPPED))
            else:
                order = advance(order, ReplaceAnswered(order.terms))
            await record(transaction, action, Settlement(ActionState.SKIPPED, Reason(code), order))
            refused.add(action.action_id)
    return refused
