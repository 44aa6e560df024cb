"""Execution's store in memory, held to the same contract suite as PostgreSQL's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from openbell_server.application.ports.account_transaction import AccountStanding, Hold, TrackedAction
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls.facts import CommandFacts, Facts, Need
from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.controls.kinds.times import rules_by_default, rules_of_symbol
from openbell_server.domain.controls.receipts import Receipt
from openbell_server.domain.controls.rules import Rule, RuleBook
from openbell_server.domain.controls.symbol_controls import SYMBOL_DISABLED, DoorFacts, SymbolControls
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import AccountId, ActionId, IntentId, Symbol, client_order_id
from openbell_server.domain.orders.action_lifecycle import SETTLED, ActionState, Reason, advance
from openbell_server.domain.orders.broker_reports import BrokerExecution, ExecutionChange
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import Order, Standing
from simulation.memory_database import ActionRow, Event
from simulation.memory_reconciliation import ReconcilingTransaction

ROUND_MAX = 200
PROBES_MAX = 50
DATABASE_EPOCH = 1


@dataclass(eq=False, slots=True)
class MemoryAccountTransaction(ReconcilingTransaction):
    """Implements AccountTransaction."""

    _events: list[tuple[EventKind, IntentId | None, int | None, str]] = field(default_factory=list)

    @property
    def now(self) -> datetime:
        """When the lock was asked for."""
        return self.began_at

    @property
    def hold(self) -> Hold | None:
        """Set while no door of the account may open."""
        return self.book.hold

    @property
    def halt_code(self) -> str | None:
        """Why nothing but cancels may pass."""
        return self.book.halt_code

    @property
    def epochs(self) -> tuple[int, int]:
        """Of the database and of the account."""
        return DATABASE_EPOCH, self.book.epoch

    @property
    def was_restored(self) -> bool:
        """Whether the database was ever restored."""
        return self.book.was_restored

    async def superseded(self) -> list[TrackedAction]:
        """What a queued cancel makes needless."""
        await self.statement()
        found = []
        for intent, rows in self._by_intent().items():
            cancel = next((r for r in rows if r.action_type is ActionType.CANCEL and is_queued(r)), None)
            if cancel is None:
                continue
            unsent = is_queued(self._first(intent))
            found += [
                row
                for row in rows
                if row.seq <= cancel.seq and is_queued(row) and (unsent or row.action_type is ActionType.REPLACE)
            ]
        return self._tracked(found)[:ROUND_MAX]

    async def standing(self) -> AccountStanding:
        """How the account stands with its broker."""
        await self.statement()
        return AccountStanding(self.epochs, self.book.credential_version, self.book.credential_status)

    async def ready(self, limit: int, *, commands: int, cancels: bool, cancels_unseen: bool) -> list[TrackedAction]:
        """What may be sent next, cancels alone if there are any, in commit order."""
        await self.statement()
        first, others = [], []
        for rows in self._by_intent().values():
            for place, row in enumerate(rows):
                if row.action_type is not ActionType.CANCEL:
                    others += [row] if is_queued(row) and place == 0 else []
                elif cancels and is_queued(row) and all(_may_be_passed(each, cancels_unseen) for each in rows[:place]):
                    first.append(row)
        if found := self._tracked(first)[:limit]:
            return found
        judged = [replace(action, at_door=self._door_facts(action)) for action in self._tracked(others)]
        return judged[: min(commands, limit)]

    async def rule_book(self, epochs: tuple[int, int]) -> RuleBook:
        """The controls of symbols, as rules; there are no others here."""
        account_id = self.book.account.account_id
        rules: list[Rule] = []
        for symbol, found in sorted(self.book.controls.items()):
            rules += _rules_of(account_id, symbol, found)
        rules += rules_by_default(Environment.PAPER, rules)
        return RuleBook(organization_epoch=epochs[0], account_epoch=epochs[1], rules=rules)

    async def facts_at_door(
        self, action: TrackedAction, asked: CommandFacts, rules: Sequence[Rule], needs: frozenset[Need]
    ) -> Facts:
        """No rule here needs any but the time."""
        del asked, rules
        assert not needs
        assert action.at_door is not None
        return Facts(now=action.at_door.now)

    async def keep_refusal(self, action: TrackedAction, receipt: Receipt) -> None:
        """Receipts are not kept here."""

    async def in_doubt(self) -> list[TrackedAction]:
        """Actions past their door without an outcome."""
        await self.statement()
        doubtful = {ActionState.DISPATCHING, ActionState.UNKNOWN}
        return self._tracked([row for row in self.book.actions.values() if row.state in doubtful])[:ROUND_MAX]

    async def has_queued(self, *, cancels: bool = False) -> bool:
        """Whether an action of the account waits for its door, or a cancel does."""
        await self.statement()
        kinds = {row.action_type for row in self.book.actions.values() if row.state is ActionState.QUEUED}
        return ActionType.CANCEL in kinds if cancels else bool(kinds)

    async def of_intents(self, intent_ids: Sequence[IntentId]) -> list[TrackedAction]:
        """All actions of these intents, in order."""
        await self.statement()
        known = [intent_id for intent_id in sorted(set(intent_ids)) if intent_id in self.book.intents]
        rows = [self.book.actions[action_id] for intent_id in known for action_id in self.book.intents[intent_id]]
        return [self.as_tracked(row) for row in rows]

    async def intents_of(self, action_ids: Sequence[ActionId]) -> dict[ActionId, IntentId]:
        """Which intents these actions belong to."""
        await self.statement()
        known = {row.known_as: row.intent_id for row in self.book.actions.values() if row.known_as}
        known |= {row.action_id: row.intent_id for row in self.book.actions.values()}
        return {action_id: known[action_id] for action_id in action_ids if action_id in known}

    async def intents_of_broker_orders(self, broker_order_ids: Sequence[str]) -> dict[str, IntentId]:
        """Which intents the orders belong to that the broker calls so."""
        await self.statement()
        orders = self.book.orders.items()
        known = {broker_id: intent_id for intent_id, order in orders for broker_id in order.broker_order_ids}
        return {broker_id: known[broker_id] for broker_id in broker_order_ids if broker_id in known}

    async def adopt_forgotten_orders(self, action_ids: Sequence[ActionId]) -> dict[ActionId, ActionId]:
        """Give actions the orders that the broker has for the same commands from before a restore."""
        await self.statement()
        taken = {row.known_as for row in self.book.actions.values()}
        adopted = {}
        for action_id in action_ids:
            for forgotten in self.book.forgotten:
                if forgotten not in taken and _command_of(forgotten) == _command_of(action_id):
                    self.change(action_id, known_as=forgotten)
                    adopted[action_id] = forgotten
                    taken.add(forgotten)
                    break
        return adopted

    async def add_forgotten_orders(self, action_ids: Sequence[ActionId]) -> None:
        """Remember orders that the broker has and our record does not."""
        await self.statement()
        self.book.forgotten |= dict.fromkeys(action_ids)

    async def end_hold(self, hold: Hold) -> None:
        """Let the account trade again."""
        await self.statement()
        if self.book.hold is not None and self.book.hold.epoch == hold.epoch:
            self.book.hold = None

    async def open_doors(self, action_ids: Sequence[ActionId], attempt_id: UUID) -> dict[ActionId, datetime]:
        """QUEUED → DISPATCHING."""
        await self.statement()
        now = self.database.clock()
        opened = {}
        for action_id in action_ids:
            if is_queued(self.book.actions[action_id]):
                self.change(action_id, state=ActionState.DISPATCHING, attempt_id=attempt_id, send_started_at=now)
                opened[action_id] = now
                self.database.note(f"door {client_order_id(action_id)}")
        assert opened.keys() == set(action_ids), "the account's lock was not held"
        return opened

    async def save_action(self, action: TrackedAction, state: ActionState, reason: Reason | None) -> None:
        """Write an action's next state, if the table of states allows it."""
        advance(action.state, state)
        await self.statement()
        if self.book.actions[action.action_id].state is not action.state:
            return
        self.database.note(
            f"{action.action_type} {client_order_id(action.action_id)} {action.state} → {state} {reason}"
        )
        now = self.database.clock()
        self.change(action.action_id, state=state, reason=reason, settled_at=now if state in SETTLED else None)
        if state is ActionState.UNKNOWN:
            self.change(action.action_id, unknown_since=now)

    async def add_probe(self, action_id: ActionId, asked_at: datetime, *, found: bool) -> None:
        """Keep a look-up as evidence."""
        await self.statement()
        probes = self.book.actions[action_id].probes
        self.change(action_id, probes=(*probes[1 - PROBES_MAX :], (asked_at, found)))

    async def save_order(self, action: TrackedAction, order: Order) -> None:
        """Write an order's facts."""
        await self.statement()
        self.book.write_order(action.intent_id, order)

    async def flag_action(self, action_id: ActionId) -> datetime | None:
        """Mark an action as one that somebody should look at, once; since when, if that is new."""
        await self.statement()
        if self.book.actions[action_id].flagged_at is not None:
            return None
        now = self.database.clock()
        self.database.note(f"flag {client_order_id(action_id)}")
        self.change(action_id, flagged_at=now)
        return now

    async def to_flag(self, stuck_after_seconds: float, flag_after_seconds: float) -> list[TrackedAction]:
        """Actions abandoned past their door, and those UNKNOWN for long that nobody was told to look at."""
        await self.statement()
        is_due = is_to_flag(self.database.clock(), stuck_after_seconds, flag_after_seconds)
        return self._tracked([row for row in self.book.actions.values() if is_due(row)])[:ROUND_MAX]

    async def count_repeat(self, action: TrackedAction) -> None:
        """Count one more write of a cancel in doubt."""
        await self.statement()
        row = self.book.actions[action.action_id]
        self.book.actions[action.action_id] = replace(row, resends=row.resends + 1)

    async def door_facts(self, action: TrackedAction) -> DoorFacts:
        """What an action past its door would be judged by, were it to pass once more."""
        await self.statement()
        return self._door_facts(action)

    async def open_orders(self) -> list[TrackedAction]:
        """Orders that the broker may have, each as the action that asked for it."""
        await self.statement()
        firsts = [self._first(intent_id) for intent_id in self.book.intents]
        open_now = [row for row in firsts if not is_queued(row) and is_open(self.book.orders[row.intent_id])]
        return self._tracked(open_now)

    async def record_resend(self, action: TrackedAction, attempt_id: UUID) -> datetime:
        """Count one more write of an action in doubt."""
        await self.statement()
        row, now = self.book.actions[action.action_id], self.database.clock()
        assert row.state is ActionState.UNKNOWN, "the account's lock was not held"
        assert row.attempt_id == action.attempt_id, "the account's lock was not held"
        self.change(action.action_id, resends=row.resends + 1, attempt_id=attempt_id, send_started_at=now)
        return now

    async def add_executions(self, intent_id: IntentId, fills: Sequence[BrokerExecution]) -> set[str]:
        """Store fills; the ids of those never seen before."""
        if not fills:
            return set()
        await self.statement()
        unseen = {fill.execution_id: fill for fill in reversed(fills) if fill.execution_id not in self.book.executions}
        self.book.executions |= {execution_id: (intent_id, fill) for execution_id, fill in unseen.items()}
        return set(unseen)

    async def add_execution_changes(self, intent_id: IntentId, changes: Sequence[ExecutionChange]) -> None:
        """Store what a broker says of fills afterwards, each once."""
        await self.statement()
        for change in changes:
            self.book.changes.setdefault((change.execution_id, change.revision), (intent_id, change))

    async def executions_of(self, intent_id: IntentId) -> tuple[list[BrokerExecution], list[ExecutionChange]]:
        """All fills of an order, and all that was said of them afterwards."""
        await self.statement()
        fills = [fill for _, (whose, fill) in sorted(self.book.executions.items()) if whose == intent_id]
        return fills, [change for _, (whose, change) in sorted(self.book.changes.items()) if whose == intent_id]

    def append_event(self, kind: EventKind, intent_id: IntentId | None, seq: int | None, body: str) -> None:
        """Append to the account's log."""
        self._events.append((kind, intent_id, seq, body))

    def finish(self) -> None:
        """Number what was appended."""
        for kind, intent_id, seq, body in self._events:
            self.book.events.append(Event(len(self.book.events) + 1, kind, intent_id, seq, body))

    def change(self, action_id: ActionId, **values: object) -> None:
        """Replace an action's row."""
        row = self.book.actions[action_id]
        self.book.actions[action_id] = replace(row, updated_at=self.database.clock(), **values)  # type: ignore[arg-type]

    def _by_intent(self) -> dict[IntentId, list[ActionRow]]:
        """What is unsettled of each intent, in order."""
        unsettled: dict[IntentId, list[ActionRow]] = {}
        for row in self.book.actions.values():
            if row.settled_at is None:
                unsettled.setdefault(row.intent_id, []).append(row)
        return unsettled

    def _first(self, intent_id: IntentId) -> ActionRow:
        return self.book.actions[self.book.intents[intent_id][0]]

    def _tracked(self, rows: Sequence[ActionRow]) -> list[TrackedAction]:
        return [self.as_tracked(row) for row in sorted(rows, key=lambda row: row.number)]

    def as_tracked(self, row: ActionRow) -> TrackedAction:
        """The action of a row with its order."""
        first = self._first(row.intent_id)
        return TrackedAction(
            action_id=row.action_id,
            intent_id=row.intent_id,
            seq=row.seq,
            action_type=row.action_type,
            state=row.state,
            attempt_id=row.attempt_id,
            send_started_at=row.send_started_at,
            order_action_id=first.known_as or first.action_id,
            misses=[at for at, found in row.probes if not found],
            order=self.book.orders[row.intent_id],
            terms=self.book.terms[row.intent_id],
            replacement=row.replacement,
            resends=row.resends,
            flagged_at=row.flagged_at,
            unknown_since=row.unknown_since,
            settled_at=row.settled_at,
        )

    def _door_facts(self, action: TrackedAction) -> DoorFacts:
        row = self.book.actions[action.action_id]
        return DoorFacts(
            now=self.database.clock(),
            queued_at=row.queued_at,
            environment=Environment.PAPER,
            organization_epoch=1,
            account_epoch=self.book.epoch,
            organization_disabled=False,
            account_disabled=self.book.is_disabled,
            principal_revoked=row.principal_revoked,
        )


def _rules_of(account_id: AccountId, symbol: Symbol, found: SymbolControls) -> list[Rule]:
    rules = [] if found.time is None else rules_of_symbol(account_id, "UTC", symbol, found.time)
    if found.manual is None:
        return rules
    disabled = Rule(
        code=SYMBOL_DISABLED,
        scope=Scope.SYMBOL,
        subject=f"{account_id} {symbol}",
        symbol=symbol,
        api_key_id=None,
        parameters=found.manual.control,
        mode=Mode.HARD,
        on_missing=None,
        version=found.manual.version,
    )
    return [disabled, *rules]


def is_queued(row: ActionRow) -> bool:
    """Whether it waits for its door."""
    return row.state is ActionState.QUEUED


def _may_be_passed(row: ActionRow, cancels_unseen: bool) -> bool:
    """Whether a cancel need not wait for an earlier action of its intent."""
    is_unseen = row.action_type is ActionType.CREATE and not cancels_unseen
    return row.state is ActionState.UNKNOWN and not is_unseen


def is_open(order: Order) -> bool:
    """Whether the broker may have it."""
    return order.standing is not Standing.CLOSED


def is_to_flag(now: datetime, stuck_after_seconds: float, flag_after_seconds: float) -> Callable[[ActionRow], bool]:
    """What tells whether somebody must be told of a row."""
    stuck, long = now - timedelta(seconds=stuck_after_seconds), now - timedelta(seconds=flag_after_seconds)

    def is_due(row: ActionRow) -> bool:
        if row.state is ActionState.DISPATCHING:
            return row.send_started_at is not None and row.send_started_at < stuck
        is_unknown = row.state is ActionState.UNKNOWN and row.flagged_at is None
        return is_unknown and row.unknown_since is not None and row.unknown_since < long

    return is_due


def _command_of(action_id: ActionId) -> str:
    """The part of an id that the same command under the same key has again."""
    return str(action_id)[15:]
