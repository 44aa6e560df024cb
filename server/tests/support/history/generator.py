"""Makes histories of a platform that kept every promise: many intents at once, lost answers, retries, late reads."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from random import Random
from uuid import UUID

import msgspec

from openbell import Action, Reason
from openbell_server.brokers.paper.wire import LedgerOrderBody
from openbell_server.devtools.demo.ledgers import Books
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.orders.broker_reports import ReportStatus
from support.builders.ledger_books import create, order, shown
from support.history.history import Call, Fill, History, LoggedEvent, Operation, Result, Sight

ACCOUNTS = (UUID(int=101), UUID(int=102))
# What becomes of an intent, event by event: (seq, state) of an action, or (state, filled quantity) of its order.
STORIES: dict[str, list[tuple[int, str] | tuple[str, int]]] = {
    "filled": [(1, "QUEUED"), (1, "ACKED"), ("NEW", 0), ("FILLED", 10)],
    "split": [(1, "QUEUED"), (1, "ACKED"), ("NEW", 0), ("PARTIALLY_FILLED", 4), ("FILLED", 10)],
    "canceled": [(1, "QUEUED"), (1, "ACKED"), ("NEW", 0), (2, "QUEUED"), (2, "ACKED"), ("CANCELED", 0)],
    "absent": [(1, "QUEUED"), (1, "UNKNOWN"), ("UNKNOWN", 0), (1, "FAILED"), ("FAILED", 0)],
    "unsent": [(1, "QUEUED"), (2, "QUEUED"), (1, "SKIPPED"), ("SKIPPED", 0), (2, "SKIPPED")],
}
FILLS = {"filled": ["10"], "split": ["4", "6"], "canceled": []}


@dataclass
class _Intent:
    """One intent and how it stands; it is named after its story."""

    name: str
    story: str
    number: int
    account: UUID
    ahead: list[tuple[int, str] | tuple[str, int]]
    states: dict[int, str] = field(default_factory=dict)
    order_state: str = "PENDING_NEW"
    filled: Decimal = Decimal(0)

    def key(self, seq: int) -> str:
        return f"key of {self.name}" if seq == 1 else f"key {seq} of {self.name}"

    def sight(self, seq: int) -> Sight:
        return Sight(seq, self.states[seq], self.order_state, self.filled)


class _Making:
    """Walks through the stories in a random order, one event at a time, with clients that call between them."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.calls: list[Call] = []
        self.actions: list[Action] = []
        self.log: dict[str, list[LoggedEvent]] = {str(account): [] for account in ACCOUNTS}

    def step(self, intent: _Intent) -> None:
        """One event; a slow read that began before it may still show what was before it."""
        if not intent.states or self.random.random() < 0.7:
            self._tell(intent)
            return
        newest = max(intent.states)
        slow = self._call(intent, Operation.READ, Result.OK, newest)
        self._tell(intent)
        self.calls.append(replace(slow, ended=self._tick()))

    def refuse(self, intent: _Intent) -> None:
        """A command that leaves nothing."""
        self.calls.append(self._call(intent, Operation.CREATE, Result.FAIL, 9))

    def _tell(self, intent: _Intent) -> None:
        what = intent.ahead.pop(0)
        log = self.log[str(intent.account)]
        if isinstance(what[0], int):
            seq, state = what[0], str(what[1])
            new = seq not in intent.states
            intent.states[seq] = state
            log.append(LoggedEvent(len(log) + 1, EventKind.INTENT_ACTION, intent.name, seq, state, None))
            if new:
                self._submit(intent, seq)
        else:
            intent.order_state, intent.filled = what[0], Decimal(what[1])
            kind = EventKind.BROKER_ORDER
            log.append(LoggedEvent(len(log) + 1, kind, intent.name, None, intent.order_state, intent.filled))
        if self.random.random() < 0.4:
            self.calls.append(self._call(intent, Operation.READ, Result.OK, max(intent.states)))

    def _call(self, intent: _Intent, operation: Operation, result: Result, seq: int) -> Call:
        known = result is Result.OK
        is_command = operation is not Operation.READ
        return Call(
            process=f"client-{self.random.randrange(3)}",
            operation=operation,
            account_id=str(intent.account),
            key=intent.key(seq) if is_command else None,
            digest=f"digest of {intent.key(seq)}" if is_command else None,
            begun=self._tick(),
            ended=self._tick(),
            result=result,
            intent_id=intent.name if known else None,
            sight=intent.sight(seq) if known else None,
        )

    def _submit(self, intent: _Intent, seq: int) -> None:
        """Accepted, though some of its callers never heard, and others asked again."""
        operation = Operation.CREATE if seq == 1 else Operation.CANCEL
        action = create(intent.name, intent.number + seq, account=intent.account)
        self.actions.append(
            msgspec.structs.replace(
                action, seq=seq, action_type=operation.value.upper(), client_reference_id=intent.key(seq)
            )
        )
        before = [result for result in (Result.FAIL, Result.UNKNOWN) if self.random.random() < 0.3]
        after = [Result.OK] if self.random.random() < 0.3 else []
        self.calls += [self._call(intent, operation, result, seq) for result in (*before, Result.OK, *after)]

    def _tick(self) -> float:
        self.now += self.random.uniform(0.1, 1)
        return self.now


def make_history(seed: int, rounds: int = 3) -> History:
    """A clean history with every story a few times over, all of one story on one account; the seed decides all else."""
    making = _Making(seed)
    intents = [
        _Intent(f"{story}-{turn}", story, 1000 + 10 * (5 * turn + place), ACCOUNTS[place % 2], list(events))
        for turn in range(rounds)
        for place, (story, events) in enumerate(STORIES.items())
    ]
    unfinished = list(intents)
    while unfinished:
        intent = making.random.choice(unfinished)
        making.step(intent)
        if not intent.ahead:
            unfinished.remove(intent)
        if making.random.random() < 0.1:
            making.refuse(intent)
    orders = list(_orders(intents))
    positions: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for intent in intents:
        positions[str(intent.account), "AAPL"] += intent.filled
    return History(
        calls=making.calls,
        books=_books(intents, making.actions, orders),
        fills=[
            Fill(str(intent.account), intent.name, f"P{intent.number}-{place}", Decimal(quantity))
            for intent in intents
            for place, quantity in enumerate(FILLS.get(intent.story, []), 1)
        ],
        positions=positions,
        heads={account: len(events) for account, events in making.log.items()},
        log=making.log,
        followed={account: list(events) for account, events in making.log.items()},
    )


def _orders(intents: list[_Intent]) -> Iterator[LedgerOrderBody]:
    for intent in intents:
        if intent.story in FILLS:
            status, fills = ReportStatus(intent.order_state), FILLS[intent.story]
            yield order(intent.number + 1, intent.number, status, *fills, account=intent.account)


def _books(intents: list[_Intent], recorded: list[Action], orders: list[LedgerOrderBody]) -> Books:
    by_name = {intent.name: intent for intent in intents}
    reasons = {"FAILED": Reason(code="NOT_AT_BROKER"), "SKIPPED": Reason(code="SUPERSEDED")}
    actions, latest = [], {}
    for action in recorded:
        intent = by_name[action.intent_id]
        state = intent.states[action.seq]
        actions.append(msgspec.structs.replace(action, status=state, reason=reasons.get(state)))
        latest[intent.name] = shown(
            actions[-1],
            intent.order_state,
            filled_quantity=intent.filled,
            average_price=Decimal("99.5") if intent.filled else None,
            broker_order_ids=(f"P{intent.number}",) if intent.story in FILLS else (),
        )
    return Books(accepted=frozenset(), actions=actions, intents=latest, orders=orders, repeated_submits=0)
