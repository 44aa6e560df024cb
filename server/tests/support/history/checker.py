"""Judges a history: every finding is a promise that was not kept; pure.

Times are of one monotonic clock, and only calls that do not overlap are held against each other: of two that do,
either may have come first.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import pairwise
from math import inf
from typing import Final
from uuid import UUID

from openbell.models import FINAL_STATES
from openbell_server.devtools.demo import ledgers
from openbell_server.domain.identifiers import ActionId, client_order_id
from openbell_server.domain.orders.action_lifecycle import SETTLED, STEPS, ActionState
from support.history.history import Call, Fill, Finding, History, Kind, LoggedEvent, Operation, Result, Sight

_OF_LEDGERS: Final = {
    ledgers.Finding.DOUBLED: Kind.ORDER_DOUBLED,
    ledgers.Finding.LOST: Kind.ORDER_LOST,
    ledgers.Finding.DISAGREEING: Kind.ORDER_DISAGREEING,
    ledgers.Finding.UNFINISHED: Kind.ORDER_UNFINISHED,
}
LISTED_MAX: Final = 5
_TYPES: Final = {Operation.CREATE: "CREATE", Operation.REPLACE: "REPLACE", Operation.CANCEL: "CANCEL"}


def check(history: History) -> list[Finding]:
    """Everything that is wrong; an empty list is a clean history."""
    return [
        *_check_answers(history),
        *_check_presence(history),
        *_check_records(history),
        *_check_reads(history),
        *_check_numbers(history),
        *_check_followed(history),
        *_check_steps(history),
        *_check_logged_orders(history),
        *_check_fills(history),
        *_check_positions(history),
        *_check_ledgers(history),
    ]


def _commands(history: History) -> dict[tuple[str, str], list[Call]]:
    """Calls by account and key."""
    by_key = defaultdict(list)
    for call in history.calls:
        if call.key is not None:
            by_key[call.account_id, call.key].append(call)
    return by_key


def _check_answers(history: History) -> Iterator[Finding]:
    """One key is one command: whoever was answered, however often, heard of the same one."""
    for (account, key), calls in _commands(history).items():
        answered = [call for call in calls if call.result is Result.OK]
        named = {(call.intent_id, call.sight and call.sight.seq) for call in answered}
        if len(named) > 1:
            yield Finding(Kind.OTHER_ANSWER, f"key {key} of {account} was answered with {_listed(named)}")
        if len({call.digest for call in answered}) > 1:
            yield Finding(Kind.KEY_TAKEN_TWICE, f"key {key} of {account} was accepted for two different bodies")


def _check_presence(history: History) -> Iterator[Finding]:
    """What was accepted is there, once."""
    shown = Counter((a.account_id, a.intent_id, a.seq, a.action_type) for a in history.books.actions)
    for _, intent_id, seq, action_type in (place for place, times in shown.items() if times > 1):
        yield Finding(Kind.DOUBLED, f"{action_type} {seq} of intent {intent_id} is listed more than once")
    accepted = {
        (call.account_id, call.intent_id, call.sight.seq, _TYPES[call.operation])
        for call in history.calls
        if call.result is Result.OK and call.operation in _TYPES and call.intent_id and call.sight
    }
    for account, intent_id, seq, action_type in sorted(accepted - shown.keys()):
        yield Finding(
            Kind.LOST, f"{action_type} {seq} of intent {intent_id} of {account} was accepted and is not shown"
        )


def _check_records(history: History) -> Iterator[Finding]:
    """What is recorded was asked for, not refused, once, and in the order of its numbers."""
    commands = _commands(history)
    left: dict[tuple[str, str], set[str]] = defaultdict(set)
    seqs: dict[str, list[int]] = defaultdict(list)
    for action in history.books.actions:
        left[action.account_id, action.client_reference_id or ""].add(action.id)
        seqs[action.intent_id].append(action.seq)
    for (account, key), actions in left.items():
        calls = commands.get((account, key), [])
        if len(actions) > 1:
            yield Finding(Kind.DOUBLED, f"key {key} of {account} left actions {_listed(actions)}")
        if not calls:
            yield Finding(Kind.UNASKED, f"nobody asked for actions {_listed(actions)} of {account}")
        elif all(call.result is Result.FAIL for call in calls):
            yield Finding(Kind.REFUSED_KEPT, f"key {key} of {account} was refused and left {_listed(actions)}")
    for intent_id, numbers in seqs.items():
        # A number that is listed twice is doubled, not a gap.
        if list(dict.fromkeys(numbers)) != list(range(1, max(numbers) + 1)):
            yield Finding(Kind.SEQ_GAP, f"the commands of intent {intent_id} are numbered {numbers}")


@dataclass(slots=True)
class _Known:
    """What calls that have ended showed of one intent."""

    exists: bool = False
    seq: int = 0
    settled: dict[int, str] = field(default_factory=dict)
    final: bool = False
    filled: Decimal = Decimal(0)

    def learn(self, call: Call) -> None:
        self.exists |= call.result is Result.OK
        if call.sight is not None:
            self.seq = max(self.seq, call.sight.seq)
            if call.sight.state in SETTLED:
                self.settled[call.sight.seq] = call.sight.state
            self.final |= call.sight.order_state in FINAL_STATES
            self.filled = max(self.filled, call.sight.filled_quantity)

    def judge(self, call: Call) -> Iterator[Finding]:
        about = f"{call.process} read intent {call.intent_id}"
        sight = call.sight
        if self.exists and call.operation is Operation.READ and call.result is Result.FAIL:
            yield Finding(Kind.STALE_READ, f"{about} and did not find it after it had been accepted")
        if sight is None:
            return
        # A read shows the newest command, an answer shows its own.
        if call.operation is Operation.READ and sight.seq < self.seq:
            yield Finding(Kind.STALE_READ, f"{about} at {sight.seq} after {self.seq} had been accepted")
        if self.settled.get(sight.seq, sight.state) != sight.state:
            yield Finding(Kind.BACKWARD_READ, f"{about} as {sight.state} after {self.settled[sight.seq]}")
        if self.final and sight.order_state not in FINAL_STATES:
            yield Finding(Kind.BACKWARD_READ, f"{about} with its order {sight.order_state} after it had ended")
        if sight.filled_quantity < self.filled:
            yield Finding(Kind.BACKWARD_READ, f"{about} filled {sight.filled_quantity} after {self.filled}")


def _check_reads(history: History) -> Iterator[Finding]:
    """No answer is older than one that was heard before its question was asked; the final read comes last of all."""
    by_intent: dict[str, list[Call]] = defaultdict(list)
    for call in [*history.calls, *_final_reads(history.books)]:
        if call.intent_id is not None and call.result is not Result.UNKNOWN:
            by_intent[call.intent_id].append(call)
    for calls in by_intent.values():
        known = _Known()
        ended = iter(sorted(calls, key=lambda call: call.ended))
        earlier = next(ended)
        for call in sorted(calls, key=lambda call: call.begun):
            # It ends at the call itself at the latest, which did not end before it began.
            while earlier.ended < call.begun:
                known.learn(earlier)
                earlier = next(ended)
            yield from known.judge(call)


def _final_reads(books: ledgers.Books) -> Iterator[Call]:
    for intent_id, latest in books.intents.items():
        if latest.execution is not None:
            yield Call(
                process="the final read",
                operation=Operation.READ,
                account_id=latest.account_id,
                begun=inf,
                ended=inf,
                result=Result.OK,
                intent_id=intent_id,
                sight=Sight.of(latest),
            )


def _check_numbers(history: History) -> Iterator[Finding]:
    """Every log, and all that any follower received, is 1, 2, 3 … up to the newest event."""
    for who, told in (("the log of", history.log), ("the follower of", history.followed)):
        for account, head in history.heads.items():
            numbers = [event.number for event in told.get(account, ())]
            missing = set(range(1, head + 1)) - set(numbers)
            if missing:
                yield Finding(Kind.EVENT_GAP, f"{who} {account} lacks {_listed(missing)} of {head}")
            once = list(dict.fromkeys(numbers))
            if len(once) < len(numbers):
                yield Finding(Kind.EVENT_REPEATED, f"{who} {account} has {len(numbers) - len(once)} events twice")
            if once != sorted(once):
                first = next(after for before, after in pairwise(once) if after < before)
                yield Finding(Kind.EVENT_DISORDER, f"{who} {account} has event {first} too late")


def _check_followed(history: History) -> Iterator[Finding]:
    """What a follower was told is what is stored."""
    for account, events in history.followed.items():
        stored = {event.number: event for event in history.log.get(account, ())}
        for event in events:
            # A number that is not stored is a gap of the log, and told of there.
            if stored.get(event.number, event) != event:
                yield Finding(Kind.EVENT_DIFFERS, f"{account}: told {event}, stored {stored[event.number]}")


def _in_order(history: History) -> list[LoggedEvent]:
    return [event for events in history.log.values() for event in sorted(events, key=lambda event: event.number)]


def _check_steps(history: History) -> Iterator[Finding]:
    """Every action goes by the table from QUEUED to where it is shown in the end."""
    states: dict[tuple[str, int], list[str]] = defaultdict(list)
    for event in _in_order(history):
        if event.seq is not None:
            states[event.intent_id, event.seq].append(event.state)
    shown = {(action.intent_id, action.seq): action.status for action in history.books.actions}
    for (intent_id, seq), steps in states.items():
        wrong = [f"{before} → {after}" for before, after in pairwise(["", *steps]) if not _may_follow(before, after)]
        if wrong:
            yield Finding(Kind.ILLEGAL_STEP, f"action {seq} of intent {intent_id} went {', '.join(wrong)}")
    for place in sorted(states.keys() | shown.keys()):
        last = states[place][-1] if place in states else None
        # A command that is not shown at all is lost, and told of there.
        if last != shown.get(place, last):
            yield Finding(Kind.LOG_DISAGREES, f"action {place} ends as {last} in the log, shown as {shown[place]}")


def _check_logged_orders(history: History) -> Iterator[Finding]:
    """No fill is taken back, and the log's last word about an order is what is shown in the end."""
    orders: dict[str, list[LoggedEvent]] = defaultdict(list)
    for event in _in_order(history):
        if event.filled_quantity is not None:
            orders[event.intent_id].append(event)
    for intent_id, events in orders.items():
        for before, after in pairwise(event.filled_quantity for event in events if event.filled_quantity is not None):
            if after < before:
                yield Finding(Kind.ILLEGAL_STEP, f"the order of intent {intent_id} filled {before}, then {after}")
        latest = history.books.intents.get(intent_id)
        if latest is not None and latest.execution is not None:
            last, ours = events[-1], (latest.execution.status, latest.execution.filled_quantity)
            if (last.state, last.filled_quantity) != ours:
                yield Finding(Kind.LOG_DISAGREES, f"the order of {intent_id} ends as {last}, shown as {ours}")


def _may_follow(state: str, following: str) -> bool:
    """Whether the log may tell of these one after the other: the door itself, DISPATCHING, writes no event."""
    if not state:
        return following == ActionState.QUEUED
    if state == following == ActionState.UNKNOWN:
        # It was written again, or somebody was asked to look.
        return True
    allowed = _following(ActionState(state))
    if ActionState.DISPATCHING in allowed:
        allowed = (allowed | _following(ActionState.DISPATCHING)) - {ActionState.DISPATCHING}
    return ActionState(following) in allowed


def _check_fills(history: History) -> Iterator[Finding]:
    """Every execution counts once, for the order that the broker made it for, and all add up to what is shown."""
    ours: dict[str, list[Fill]] = defaultdict(list)
    for fill in history.fills:
        ours[fill.intent_id].append(fill)
    intents = {
        client_order_id(ActionId(UUID(action.id))): action.intent_id
        for action in history.books.actions
        if action.action_type == "CREATE"
    }
    # Where a broker has no place for our ids, its own say whose an order is.
    named = {
        order_id: intent_id
        for intent_id, latest in history.books.intents.items()
        for order_id in (latest.execution.broker_order_ids if latest.execution else ())
    }
    theirs = {
        intents.get(order.client_order_id or "") or named.get(order.broker_order_id, ""): {
            fill.execution_id: Decimal(fill.quantity) for fill in order.executions
        }
        for order in history.books.orders
    }
    counted = Counter(
        [("stored", fill.account_id, fill.execution_id) for fill in history.fills]
        + [("told", str(o.account_id), fill.execution_id) for o in history.books.orders for fill in o.executions]
    )
    for where, account, execution_id in (place for place, times in counted.items() if times > 1):
        yield Finding(Kind.FILL_TWICE, f"execution {execution_id} of {account} is {where} more than once")
    for intent_id, latest in history.books.intents.items():
        stored = {fill.execution_id: fill.quantity for fill in ours[intent_id]}
        if stored != theirs.get(intent_id, {}):
            yield Finding(Kind.FILLS_DISAGREE, f"{intent_id}: executions {stored} here, {theirs.get(intent_id)} there")
        shown = latest.execution.filled_quantity if latest.execution else Decimal(0)
        if sum(stored.values(), Decimal(0)) != shown:
            yield Finding(Kind.FILLS_DISAGREE, f"{intent_id}: executions {stored} do not add up to {shown}")


def _check_positions(history: History) -> Iterator[Finding]:
    """A position is what was bought less what was sold."""
    creates = {action.intent_id: action for action in history.books.actions if action.action_type == "CREATE"}
    expected: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for fill in {(fill.account_id, fill.execution_id): fill for fill in history.fills}.values():
        if create := creates.get(fill.intent_id):
            change = fill.quantity if create.order_side == "BUY" else -fill.quantity
            expected[create.account_id, create.symbol] += change
    for place in sorted(expected.keys() | history.positions.keys()):
        ours = history.positions.get(place, Decimal(0))
        if ours != expected[place]:
            yield Finding(Kind.POSITION_DISAGREES, f"{place} is {ours}, and executions make it {expected[place]}")


def _check_ledgers(history: History) -> Iterator[Finding]:
    """Ours and the broker's; what was accepted and is not shown at all was told of above."""
    comparison = ledgers.compare(replace(history.books, accepted=frozenset()))
    for fault, kind in _OF_LEDGERS.items():
        yield from (Finding(kind, sentence) for sentence in comparison.findings[fault])


def _listed(things: Collection[object]) -> str:
    """Some of them: a sentence need not name thousands."""
    words = sorted(map(str, things))
    return ", ".join(words[:LISTED_MAX]) + (f" and {len(words) - LISTED_MAX} more" if len(words) > LISTED_MAX else "")


def _following(state: ActionState) -> frozenset[ActionState]:
    return frozenset(following for before, following in STEPS if before is state)
