"""Open the door for queued actions of an account, send them to the broker, and record its answers."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Protocol
from uuid import UUID

from openbell_server.application.controls.recheck_before_send import recheck
from openbell_server.application.crash_points import crash_point
from openbell_server.application.events.account_log import log_order
from openbell_server.application.execution.broker_sign_ins import SendPermission
from openbell_server.application.execution.execution_ticks import ExecutionTicks
from openbell_server.application.execution.import_external_orders import release_orders
from openbell_server.application.execution.ports import ExecutionStore
from openbell_server.application.execution.record_outcomes import Door, RecordOutcomes, record
from openbell_server.application.ports.account_transaction import AccountTransaction, BrokerAccount, TrackedAction
from openbell_server.application.ports.broker import BrokerOrder, BrokerReplacement, BrokerSession
from openbell_server.application.ports.hints import Hints
from openbell_server.domain.identifiers import ActionId, action_of, client_order_id
from openbell_server.domain.orders.action_lifecycle import ActionState, Reason
from openbell_server.domain.orders.action_outcomes import (
    FORGOTTEN,
    NOTHING_SENT,
    ORDER_TERMINAL,
    QUANTITY_NOT_ABOVE_FILLED,
    SUPERSEDED,
    Settlement,
    past_door,
)
from openbell_server.domain.orders.broker_reports import NotSent, Outcome, Unknown
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import (
    Closed,
    CloseReason,
    OutcomeUnknown,
    ReplaceAnswered,
    Standing,
    advance,
)

# A command is sent within this time after its door opened, or not at all, so that a paused worker cannot send it late.
DOOR_SECONDS: Final = 2.0
CALL_SECONDS: Final = 3.0
NOT_SENT_RETRY_SECONDS: Final = 0.2
# Rounds of refused actions that are skipped at once; a later sweep skips the rest.
REFUSING_ROUNDS_MAX: Final = 100


class SendGate(Protocol):
    """Prevents sends with a credential that is no longer the account's."""

    async def passage(self, account: BrokerAccount, transaction: AccountTransaction) -> SendPermission:
        """What may be sent for the account now, decided under its lock."""


@dataclass(frozen=True, slots=True)
class _Limits:
    """How many doors may open, how many of them for other than cancels, and whether unreported orders are cancelled."""

    free: int
    commands: int
    cancels_unseen: bool


@dataclass(slots=True)
class ExecuteAction:
    store: ExecutionStore
    sessions: SendGate
    hints: Hints
    new_id: Callable[[], UUID]
    monotonic: Callable[[], float]
    # Store errors after which a write is retried.
    unavailable: tuple[type[Exception], ...]
    # Since the process started: opened doors, and recorded outcomes by state.
    counts: Counter[str] = field(default_factory=Counter)
    # Opens doors and records answers of many accounts together; without it, each account on its own.
    ticks: ExecutionTicks | None = None
    answers: RecordOutcomes = field(init=False)

    def __post_init__(self) -> None:
        in_tick = None if self.ticks is None else self.ticks.record
        self.answers = RecordOutcomes(self.store, self.monotonic, self.unavailable, self.counts, in_tick)

    async def open_doors_in_tick(
        self, account: BrokerAccount, commands: int, looked: Callable[[datetime], None]
    ) -> list[Door] | None:
        """Open doors of new orders together with other accounts; None if the account must take the long way."""
        opened = None if self.ticks is None else await self.ticks.open_doors(account, commands)
        if opened is None:
            return None
        self.counts["doors"] += len(opened.doors)
        if opened.seen_to is not None:
            looked(opened.seen_to)
        return opened.doors

    async def open_doors(
        self,
        account: BrokerAccount,
        free: int,
        *,
        commands: int | None = None,
        cancels_unseen: bool = False,
        looked: Callable[[datetime], None] = lambda _: None,
    ) -> list[Door]:
        """Commit the door for the next actions of an account, at most `free`, of them at most `commands` not cancels.

        With cancels_unseen, orders that the broker has not reported yet may be cancelled by our id. `looked` is called
        with the time up to which all recorded actions were processed.
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
        """One round: the doors, whether actions were skipped, and up to when recorded actions were processed."""
        crash_point("executor.before_door")
        attempt_id = self.new_id()
        opened: dict[ActionId, datetime] = {}
        async with self.store.account_transaction(account) as transaction:
            if transaction.hold is not None:
                return [], False, None
            # Most accounts have no cancels: one short query instead of two long ones.
            has_cancels = await transaction.has_queued(cancels=True)
            skipped = await _skip_superseded(transaction, await transaction.superseded()) if has_cancels else 0
            passage = await self.sessions.passage(account, transaction)
            found = []
            if passage is not SendPermission.WAIT:
                found = await transaction.ready(
                    limits.free,
                    commands=limits.commands,
                    cancels=has_cancels and passage is SendPermission.OPEN,
                    cancels_unseen=limits.cancels_unseen,
                )
            # Others wait for the next tick, which opens their doors for less.
            only_cancels = any(action.action_type is ActionType.CANCEL for action in found)
            if transaction.halt_code is not None:
                # Other actions stay queued until an operator lifts the halt, and are checked then.
                found = [action for action in found if action.action_type is ActionType.CANCEL]
            ready = await _skip_needless(transaction, found)
            needless = len(found) - len(ready)
            adopted = await _adopt(transaction, ready, attempt_id)
            ready = [a for a in ready if a.action_id not in adopted]
            refused = await _skip_refused(transaction, ready, account_ready=passage is SendPermission.OPEN)
            ready = [a for a in ready if a.action_id not in refused]
            # Both clocks are read under the lock, so that waiting for the lock does not age the doors.
            opened_monotonic = self.monotonic()
            if ready:
                opened = await transaction.open_doors([a.action_id for a in ready], attempt_id)
                crash_point("executor.inside_door")
            # Most orders are pending since the command was recorded; those not at the broker then become pending here.
            waiting = [(action, past_door(action.action_type, action.order)) for action in ready]
            pending = [(action, order) for action, order in waiting if order != action.order]
            for action, order in pending:
                await transaction.save_order(action, order)
                log_order(transaction, action, order)
        if skipped or needless or adopted or refused or pending:
            self.hints.events_were_written([account.account_id])
        doors = [Door(account, action, attempt_id, opened[action.action_id], opened_monotonic) for action in ready]
        self._forget_changed(doors)
        # Actions that wait for a sign-in are processed again after it.
        seen_to = None if only_cancels or passage is SendPermission.WAIT else transaction.now
        return doors, bool(refused) or needless > 0, seen_to

    def _forget_changed(self, doors: Sequence[Door]) -> None:
        """A cancel or a replace gave the order a new version; a tick would only find that out."""
        for action in (door.action for door in doors if door.action.action_type is not ActionType.CREATE):
            created_as = action_of(action.order_name.client_order_id)
            if self.ticks is not None and created_as is not None:
                self.ticks.forget(created_as)

    async def dispatch(
        self,
        session: BrokerSession,
        door: Door,
        notify: Callable[[Outcome], None] = lambda _: None,
        nothing_waits: Callable[[], None] = lambda: None,
    ) -> Outcome:
        """Call the broker, then record and return its answer; a call past the door is never cancelled half-way.

        `notify` receives each answer at once, also a request to slow down. `nothing_waits` is called if no action of
        the account was queued when the answer was recorded; an action recorded later sends its own hint.
        """
        crash_point("executor.after_door")
        outcome = await self._call(session, door, notify)
        crash_point("executor.after_answer")
        if not await self.answers(door, outcome):
            nothing_waits()
        crash_point("executor.after_outcome")
        self.hints.events_were_written([door.account.account_id])
        return outcome

    async def _call(self, session: BrokerSession, door: Door, notify: Callable[[Outcome], None]) -> Outcome:
        while True:
            if self.monotonic() - door.opened_monotonic > DOOR_SECONDS:
                return NotSent("the door was opened too long ago to write")
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    outcome = await _write(session, door)
            except TimeoutError:
                return Unknown(f"no answer within {CALL_SECONDS:g} s")
            except Exception as error:  # noqa: BLE001 - after any error the command may have been sent
                return Unknown(f"{type(error).__name__}: {error}")
            notify(outcome)
            if not isinstance(outcome, NotSent):
                return outcome
            # Provably not sent, so it may be sent again until the door expires.
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
    """Do not send an order that the broker has from before a restore; it becomes UNKNOWN and is looked up."""
    creates = [action for action in ready if action.action_type is ActionType.CREATE]
    if not transaction.was_restored or not creates:
        return {}
    adopted = await transaction.adopt_forgotten_orders([action.action_id for action in creates])
    if adopted:
        await transaction.open_doors(list(adopted), attempt_id)
        await release_orders(transaction, [client_order_id(known_as) for known_as in adopted.values()])
    for action in creates:
        if action.action_id in adopted:
            unknown = Settlement(ActionState.UNKNOWN, Reason(FORGOTTEN), advance(action.order, OutcomeUnknown()))
            await record(transaction, replace(action, state=ActionState.DISPATCHING), unknown)
    return adopted


async def _skip_needless(transaction: AccountTransaction, ready: list[TrackedAction]) -> list[TrackedAction]:
    """Skip commands of closed orders and replaces below the filled quantity; returns the others."""
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
    """Skip creates and replaces cancelled before they were sent, and the cancels of such creates; returns how many."""
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
    """Skip commands that a recheck refuses; each is checked after the decision about those before it."""
    refused = set()
    for action in ready:
        code = await recheck(transaction, action, account_ready=account_ready)
        if code is not None:
            order = action.order
            if action.action_type is ActionType.CREATE:
                order = advance(order, Closed(CloseReason.SKIPPED))
            else:
                order = advance(order, ReplaceAnswered(order.terms))
            await record(transaction, action, Settlement(ActionState.SKIPPED, Reason(code), order))
            refused.add(action.action_id)
    return refused
