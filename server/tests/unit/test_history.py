"""The history checker: a platform that kept its promises is clean, and every way to break one is found."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from openbell import Action
from openbell_server.domain.orders.broker_reports import ReportStatus
from support.builders.ledger_books import order
from support.history.checker import check
from support.history.generator import make_history
from support.history.history import Call, Finding, History, Kind, LoggedEvent, Operation, Result, Sight

SEEDS = range(20)
# An intent of each story; all of one story are on one account.
FILLED, SPLIT, CANCELED, ABSENT, UNSENT = "filled-0", "split-0", "canceled-0", "absent-0", "unsent-0"
Change = Callable[[LoggedEvent], LoggedEvent | None]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_without_a_broken_promise_is_clean(seed: int) -> None:
    assert check(make_history(seed)) == []


def test_made_histories_hold_what_makes_judging_hard() -> None:
    calls = [call for seed in SEEDS for call in make_history(seed).calls]
    assert {(call.operation, call.result) for call in calls} == {
        *((command, result) for command in (Operation.CREATE, Operation.CANCEL) for result in Result),
        (Operation.READ, Result.OK),
    }
    reads = make_history(0, 20).calls
    assert any(a.begun < b.begun and b.ended < a.ended and a.intent_id == b.intent_id for a in reads for b in reads)


def about(history: History, intent_id: str) -> tuple[Call, Action]:
    """The first answer to the intent's create, and its newest action."""
    answers = (call for call in history.calls if call.intent_id == intent_id and call.operation is Operation.CREATE)
    return next(answers), history.books.intents[intent_id]


def call_more(history: History, intent_id: str, **changes: Any) -> History:
    """The intent's create once more, after all that was."""
    create, _ = about(history, intent_id)
    now = max(call.ended for call in history.calls) + 1
    state = next(action.status for action in history.books.actions if action.intent_id == intent_id)
    late = replace(create, begun=now, ended=now + 1, sight=replace(read_sight(history, intent_id), seq=1, state=state))
    return replace(history, calls=[*history.calls, replace(late, **changes)])


def read_sight(history: History, intent_id: str) -> Sight:
    return Sight.of(history.books.intents[intent_id])


def read_more(history: History, intent_id: str, **changes: Any) -> History:
    """One more read of an intent as it stands, but for the changes."""
    sight = replace(read_sight(history, intent_id), **changes)
    return call_more(history, intent_id, operation=Operation.READ, key=None, digest=None, sight=sight)


def without_calls(history: History, words: str) -> History:
    """As if these had never been: calls whose key or intent holds the words."""
    kept = [call for call in history.calls if words not in f"{call.key} {call.intent_id}"]
    return replace(history, calls=kept)


def refused(history: History, intent_id: str) -> History:
    """As if the create had been refused each time."""
    fails = [
        replace(call, result=Result.FAIL, intent_id=None, sight=None)
        for call in history.calls
        if call.key == f"key of {intent_id}"
    ]
    others = without_calls(history, intent_id)
    return replace(history, calls=[*others.calls, *fails])


def with_actions(history: History, actions: Iterable[Action]) -> History:
    return replace(history, books=replace(history.books, actions=list(actions)))


def with_action(history: History, intent_id: str, place: int, /, **changes: Any) -> History:
    return with_actions(
        history,
        (
            msgspec.structs.replace(action, **changes)
            if (action.intent_id, action.seq) == (intent_id, place)
            else action
            for action in history.books.actions
        ),
    )


def with_latest(history: History, latest: Action) -> History:
    intents = {**history.books.intents, latest.intent_id: latest}
    return replace(history, books=replace(history.books, intents=intents))


def without_intent(history: History, intent_id: str) -> History:
    intents = {name: latest for name, latest in history.books.intents.items() if name != intent_id}
    actions = [action for action in history.books.actions if action.intent_id != intent_id]
    return replace(history, books=replace(history.books, actions=actions, intents=intents))


def with_order(history: History, intent_id: str, **changes: Any) -> History:
    """The broker's order of an intent, changed."""
    latest = history.books.intents[intent_id]
    assert latest.execution is not None
    orders = [
        msgspec.structs.replace(found, **changes)
        if found.broker_order_id in latest.execution.broker_order_ids
        else found
        for found in history.books.orders
    ]
    return replace(history, books=replace(history.books, orders=orders))


def and_order(history: History, number: int) -> History:
    """One more order at the broker, for the action with this number."""
    more = order(number, 7, ReportStatus.CANCELED, account=history.books.orders[0].account_id)
    return replace(history, books=replace(history.books, orders=[*history.books.orders, more]))


def number_of(history: History, intent_id: str) -> int:
    return next(int(action.id[-12:], 16) for action in history.books.actions if action.intent_id == intent_id)


def with_events(history: History, intent_id: str, change: Change, *books: str) -> History:
    """The stored log or what was told of it, with the events of an intent changed, or dropped by None."""

    def changed(book: Mapping[str, Sequence[LoggedEvent]]) -> dict[str, list[LoggedEvent]]:
        return {
            account: [e for event in events if (e := change(event) if event.intent_id == intent_id else event)]
            for account, events in book.items()
        }

    if "log" in books:
        history = replace(history, log=changed(history.log))
    return replace(history, followed=changed(history.followed)) if "followed" in books else history


def told(history: History, change: Callable[[list[LoggedEvent]], list[LoggedEvent]]) -> History:
    account = history.books.intents[FILLED].account_id
    return replace(history, followed={**history.followed, account: change(list(history.followed[account]))})


def action_as(states: dict[str, str]) -> Change:
    """Other states for an intent's actions."""
    return lambda event: replace(event, state=states.get(event.state, event.state)) if event.seq else event


def order_as(before: str, **changes: Any) -> Change:
    """Another word about an intent's order."""
    return lambda event: replace(event, **changes) if (event.seq, event.state) == (None, before) else event


def drop(state: str) -> Change:
    return lambda event: None if event.state == state else event


def renumbered(history: History) -> History:
    """A cancel whose number leaves a hole, wherever it is told of."""
    history = with_events(history, CANCELED, lambda e: replace(e, seq=3) if e.seq == 2 else e, "log", "followed")
    history = with_action(history, CANCELED, 2, seq=3)
    history = with_latest(history, msgspec.structs.replace(history.books.intents[CANCELED], seq=3))
    calls = [
        replace(call, sight=replace(call.sight, seq=3))
        if call.intent_id == CANCELED and call.sight and call.sight.seq == 2
        else call
        for call in history.calls
    ]
    return replace(history, calls=calls)


def unfinished(history: History) -> History:
    """An order that waits for ever, as nobody ever saw it end."""
    latest = history.books.intents[ABSENT]
    assert latest.execution is not None
    pending = msgspec.structs.replace(latest.execution, status="PENDING_NEW")
    history = with_events(history, ABSENT, order_as("FAILED", state="PENDING_NEW"), "log", "followed")
    unread = [call for call in history.calls if call.intent_id != ABSENT or call.operation is not Operation.READ]
    return replace(with_latest(history, msgspec.structs.replace(latest, execution=pending)), calls=unread)


def with_another_execution(history: History) -> History:
    """The broker names an execution otherwise than it is stored."""
    (execution,) = next(found.executions for found in history.books.orders if len(found.executions) == 1)
    return with_order(history, FILLED, executions=(msgspec.structs.replace(execution, execution_id="another"),))


CORRUPTIONS: dict[str, tuple[set[Kind], Callable[[History], History]]] = {
    "an accepted intent is gone": ({Kind.LOST}, lambda h: without_intent(h, ABSENT)),
    "an accepted cancel is gone": (
        {Kind.LOST},
        lambda h: with_actions(h, (a for a in h.books.actions if (a.intent_id, a.seq) != (UNSENT, 2))),
    ),
    "one key made two intents": (
        {Kind.DOUBLED},
        lambda h: without_calls(with_action(h, "absent-1", 1, client_reference_id=f"key of {ABSENT}"), "absent-1"),
    ),
    "an intent is listed twice": ({Kind.DOUBLED}, lambda h: with_actions(h, [*h.books.actions, h.books.actions[0]])),
    "a replay names another intent": (
        {Kind.OTHER_ANSWER},
        lambda h: call_more(h, "absent-1", key=f"key of {ABSENT}", digest=f"digest of key of {ABSENT}"),
    ),
    "a key takes another body": ({Kind.KEY_TAKEN_TWICE}, lambda h: call_more(h, FILLED, digest="another")),
    "a refused call left an intent": ({Kind.REFUSED_KEPT}, lambda h: refused(h, ABSENT)),
    "nobody asked for an intent": ({Kind.UNASKED}, lambda h: without_calls(h, ABSENT)),
    "an intent's commands are listed backwards": ({Kind.SEQ_GAP}, lambda h: with_actions(h, h.books.actions[::-1])),
    "an intent's commands have a hole": ({Kind.SEQ_GAP}, renumbered),
    "a read finds nothing after an accept": (
        {Kind.STALE_READ},
        lambda h: call_more(h, FILLED, operation=Operation.READ, key=None, result=Result.FAIL, sight=None),
    ),
    "a read shows the create after a cancel was accepted": (
        {Kind.STALE_READ},
        lambda h: read_more(h, CANCELED, seq=1),
    ),
    "a settled action reads as queued": (
        {Kind.BACKWARD_READ},
        lambda h: read_more(read_more(h, FILLED), FILLED, state="QUEUED"),
    ),
    "an order that ended reads as working": (
        {Kind.BACKWARD_READ},
        lambda h: read_more(read_more(h, FILLED), FILLED, order_state="NEW"),
    ),
    "a fill is taken back between two reads": (
        {Kind.BACKWARD_READ},
        lambda h: read_more(read_more(h, FILLED), FILLED, filled_quantity=Decimal(4)),
    ),
    "the final read is older than one before it": (
        {Kind.BACKWARD_READ},
        lambda h: read_more(h, FILLED, state="FAILED"),
    ),
    "the log lacks an event": ({Kind.EVENT_GAP}, lambda h: with_events(h, SPLIT, drop("NEW"), "log")),
    "a follower lacks an event": ({Kind.EVENT_GAP}, lambda h: with_events(h, SPLIT, drop("NEW"), "followed")),
    "a follower lacks the last event": ({Kind.EVENT_GAP}, lambda h: told(h, lambda events: events[:-1])),
    "a follower got two events swapped": (
        {Kind.EVENT_DISORDER},
        lambda h: told(h, lambda events: [events[1], events[0], *events[2:]]),
    ),
    "a follower got an event twice": ({Kind.EVENT_REPEATED}, lambda h: told(h, lambda events: [*events, events[-1]])),
    "a follower was told another state": (
        {Kind.EVENT_DIFFERS},
        lambda h: with_events(h, SPLIT, order_as("PARTIALLY_FILLED", filled_quantity=Decimal(5)), "followed"),
    ),
    "two events of the log are swapped": (
        {Kind.ILLEGAL_STEP, Kind.LOG_DISAGREES},
        lambda h: with_events(h, FILLED, action_as({"QUEUED": "ACKED", "ACKED": "QUEUED"}), "log", "followed"),
    ),
    "a settled action went on": (
        {Kind.ILLEGAL_STEP},
        lambda h: with_events(h, ABSENT, action_as({"UNKNOWN": "ACKED"}), "log", "followed"),
    ),
    "the log takes a fill back": (
        {Kind.ILLEGAL_STEP},
        lambda h: with_events(h, SPLIT, order_as("PARTIALLY_FILLED", filled_quantity=Decimal(11)), "log", "followed"),
    ),
    "the log ends otherwise": (
        {Kind.LOG_DISAGREES},
        lambda h: with_events(h, ABSENT, action_as({"FAILED": "ACKED"}), "log", "followed"),
    ),
    "a fill is stored twice": ({Kind.FILL_TWICE}, lambda h: replace(h, fills=[*h.fills, h.fills[0]])),
    "a fill is another than the broker's": ({Kind.FILLS_DISAGREE}, with_another_execution),
    "a fill is missing": ({Kind.FILLS_DISAGREE, Kind.POSITION_DISAGREES}, lambda h: replace(h, fills=h.fills[1:])),
    "a fill has another quantity": (
        {Kind.FILLS_DISAGREE, Kind.POSITION_DISAGREES},
        lambda h: replace(h, fills=[replace(h.fills[0], quantity=Decimal(9)), *h.fills[1:]]),
    ),
    "a fill is counted twice in a position": (
        {Kind.POSITION_DISAGREES},
        lambda h: replace(h, positions={place: 2 * quantity for place, quantity in h.positions.items()}),
    ),
    "the broker has an order twice": ({Kind.ORDER_DOUBLED}, lambda h: and_order(h, number_of(h, CANCELED))),
    "the broker was sent an order twice": (
        {Kind.ORDER_DOUBLED},
        lambda h: replace(h, books=replace(h.books, repeated_submits=1)),
    ),
    "the broker has an order that we do not show": ({Kind.ORDER_LOST}, lambda h: and_order(h, 5)),
    "the broker has an order that we call absent": ({Kind.ORDER_LOST}, lambda h: and_order(h, number_of(h, ABSENT))),
    "the broker filled another quantity": (
        {Kind.ORDER_DISAGREEING},
        lambda h: with_order(h, FILLED, filled_quantity="9"),
    ),
    "the broker's order ended otherwise": (
        {Kind.ORDER_DISAGREEING},
        lambda h: with_order(h, FILLED, status=ReportStatus.CANCELED),
    ),
    "an order never ended": ({Kind.ORDER_UNFINISHED}, unfinished),
}


@pytest.mark.parametrize("corruption", sorted(CORRUPTIONS))
def test_a_corrupted_history_is_found_out_by_its_own_kind(corruption: str) -> None:
    expected, corrupt = CORRUPTIONS[corruption]
    for seed in SEEDS:
        findings = check(corrupt(make_history(seed)))
        assert {finding.kind for finding in findings} == expected, _told(findings)


def test_every_kind_of_finding_is_provoked() -> None:
    assert set().union(*(kinds for kinds, _ in CORRUPTIONS.values())) == set(Kind)


def _told(findings: list[Finding]) -> str:
    return "\n".join(f"{finding.kind}: {finding.sentence}" for finding in findings)
