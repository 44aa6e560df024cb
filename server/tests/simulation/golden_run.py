"""One golden run: what each intent ends with, which the seed decides and no schedule may change.

The broker decides by the seed and the command (fated_venue.py). A command is submitted only when the one before it is
settled and our record agrees with the broker's. What is left to `schedule` is time: which step runs next, how long
statements, notices, look-ups and reports take, which reports come twice or late, and which executor holds an account.
"""

import asyncio
import gc
import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import ActionId, IntentId, uuid7
from openbell_server.domain.orders.action_lifecycle import SETTLED, ActionState
from openbell_server.domain.orders.intents import ActionType, CancelIntent, Command, CreateIntent
from openbell_server.domain.orders.order_aggregate import Standing
from simulation.bus import BusFaults
from simulation.checker import Checker, client_order_id
from simulation.fated_venue import FatedVenue
from simulation.faults import PROCESSES
from simulation.load import a_create, a_replace
from simulation.loop import SimulatedLoop
from simulation.memory_accept import accept
from simulation.memory_database import ActionRow, Book, DatabaseAway, Event
from simulation.profiles import PROFILES
from simulation.run import STEPS_MAX, add_account, until_settled
from simulation.venue import BrokerFaults, VenueOrder
from simulation.world import NOON, DatabaseFaults, World

INTENTS: Final = 12
ACCOUNTS: Final = 3
BEGIN_SECONDS: Final = 3.0
LOOK_SECONDS: Final = 0.5
REST_SECONDS_MAX: Final = 200.0
# What an intent asks for after its order; each command only if the order still works.
SEQUENCES: Final = ("", "", "R", "C", "RC", "RR", "RRC", "CC")
# Faults that cost time and decide nothing. The first schedule is the one that is recorded.
CALM: Final = (BusFaults(), DatabaseFaults(), BrokerFaults(refused=0))
ROUGH: Final = (
    BusFaults(lost=0.4, repeated=0.3, unanswered=0.1, delay_max=2.0),
    DatabaseFaults(slow=0.2, slow_seconds=0.05),
    BrokerFaults(refused=0, repeated=0.3, reordered=0.3, failing=0.1),
)
# Whether the answer or the report of the end comes first decides which of them a command that came too late has.
TOO_LATE: Final = frozenset({"BROKER_REFUSED", "ORDER_TERMINAL"})
# States between the accept and the end, which a fast answer or report skips.
PASSING: Final = frozenset({"DISPATCHING", "SENT", "UNKNOWN"})
Outcome = dict[str, str | list[str]]


@dataclass(slots=True)
class GoldenLoad:
    """Submits every intent's commands, each when the one before it has come to rest."""

    world: World
    venue: FatedVenue
    seed: int
    accounts: list[BrokerAccount]
    accepted: list[ActionId] = field(default_factory=list)
    # By the number of an intent.
    asked: dict[int, list[str]] = field(default_factory=dict)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in range(INTENTS):
                tasks.create_task(self._one(number))

    def intent_id(self, number: int) -> IntentId:
        return IntentId(self._id(number, "intent"))

    def account(self, number: int) -> BrokerAccount:
        return self.accounts[number % len(self.accounts)]

    async def _one(self, number: int) -> None:
        await asyncio.sleep(self.world.chance("begin").random() * BEGIN_SECONDS)
        chance = random.Random(f"{self.seed}/golden intent {number}")
        is_market = chance.random() < 0.4
        intent_id = self.intent_id(number)
        # No two intents of a run ask for as much: an order without our id is known by its terms.
        create = a_create(chance, lambda: 1 + number + INTENTS * chance.randint(0, 2), is_market=is_market)
        letters = chance.choice(SEQUENCES)
        changes = (
            CancelIntent(ref_intent_id=intent_id) if letter == "C" else a_replace(chance, intent_id, 60)
            for letter in letters
        )
        commands: list[Command] = [create, *changes]
        for place, command in enumerate(commands):
            is_accepted = await self._ask(number, place, command)
            self.asked.setdefault(number, []).append(f"{_words(command)}{'' if is_accepted else ' (not accepted)'}")
            if not (is_accepted and await self._is_working(number)):
                return

    async def _ask(self, number: int, place: int, command: Command) -> bool:
        action_id = ActionId(self._id(number, f"action {place}"))
        while True:
            try:
                is_accepted = await accept(
                    self.world.database,
                    self.world.outbox,
                    self.account(number),
                    action_id,
                    self.intent_id(number),
                    command,
                )
            except DatabaseAway:
                await asyncio.sleep(0.1)
                continue
            if is_accepted:
                self.accepted.append(action_id)
            return is_accepted

    async def _is_working(self, number: int) -> bool:
        """Wait until nothing more happens by itself; whether the order works then."""
        over = self.world.loop.time() + REST_SECONDS_MAX
        while not self._is_at_rest(number):
            if self.world.loop.time() > over:
                self.asked[number].append("does not come to rest")
                return False
            await asyncio.sleep(LOOK_SECONDS)
        book = self._book(number)
        is_flagged = any(row.state not in SETTLED for row in self._rows(number))
        return book.orders[self.intent_id(number)].standing is Standing.WORKING and not is_flagged

    def _is_at_rest(self, number: int) -> bool:
        rows, order = self._rows(number), self._book(number).orders[self.intent_id(number)]
        truth = self.truth(number)
        if self.venue.due[client_order_id(rows[0].action_id)]:
            return False
        if any(row.state not in SETTLED for row in rows):
            return all(row.state in SETTLED or row.flagged_at is not None for row in rows)
        if truth is None:
            return order.standing is Standing.CLOSED
        agrees = (order.filled_quantity, order.filled_value, order.terms) == (truth.filled, truth.value, truth.terms)
        return agrees and (order.standing is Standing.CLOSED) == (truth.status.value != "WORKING")

    def truth(self, number: int) -> VenueOrder | None:
        """The broker's order of an intent."""
        origin = client_order_id(self._rows(number)[0].action_id)
        return next((order for order in self.venue.orders.values() if order.origin == origin), None)

    def _book(self, number: int) -> Book:
        return self.world.database.books[self.account(number).account_id]

    def _rows(self, number: int) -> list[ActionRow]:
        book = self._book(number)
        return [book.actions[action_id] for action_id in book.intents[self.intent_id(number)]]

    def _id(self, number: int, name: str) -> IntentId | ActionId:
        entropy = hashlib.sha256(f"{self.seed}/{number}/{name}".encode()).digest()[:10]
        return IntentId(uuid7(int(NOON.timestamp() * 1000), entropy))

    def outcomes(self) -> Iterator[Outcome]:
        """What every intent ended with."""
        for number in range(INTENTS):
            yield self._outcome(number)

    def _outcome(self, number: int) -> Outcome:
        book, rows, truth = self._book(number), self._rows(number), self.truth(number)
        intent_id = self.intent_id(number)
        order = book.orders[intent_id]
        events = [event for event in book.events if event.intent_id == intent_id]
        trades = [json.loads(event.body) for event in events if event.kind is EventKind.BROKER_TRADE]
        order_id = client_order_id(rows[0].action_id)
        return {
            "asked": self.asked[number],
            "actions": [_action_words(row) for row in rows],
            "order": f"{order.standing} {order.close_reason or '-'} {order.certainty} {order.pending}"
            f" filled {order.filled_quantity} for {order.filled_value} of {order.terms.quantity}",
            "broker": "no order"
            if truth is None
            else f"{truth.status} filled {truth.filled} of {truth.terms.quantity}",
            "trades": sorted(f"{told['kind']} {told['quantity']} at {told['price']}" for told in trades),
            "writes": [
                f"{command} {count}"
                for command, count in sorted(Counter(write.command for write in self.venue.writes_of(order_id)).items())
            ],
            "events": _told(events),
        }


def _action_words(row: ActionRow) -> str:
    code = row.reason.code if row.reason else "-"
    if row.state is ActionState.REFUSED and row.action_type is not ActionType.CREATE and code in TOO_LATE:
        code = "TOO_LATE"
    return f"{row.action_type} {row.state} {code}{' flagged' if row.flagged_at else ''}"


def _told(events: list[Event]) -> list[str]:
    """Actions as they were accepted and settled, and the order as it was last reported."""
    bodies = [(event, json.loads(event.body)) for event in events]
    actions = [
        f"action {event.seq} {body.get('status', 'accepted')}"
        for event, body in bodies
        if event.kind is EventKind.INTENT_ACTION and body.get("status") not in PASSING
    ]
    orders = [f"order {body['status']}" for event, body in bodies if event.kind is EventKind.BROKER_ORDER]
    return actions + orders[-1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenEnd:
    """All that a golden run ends with."""

    seed: int
    outcomes: list[Outcome]
    # Of each account: its position.
    positions: list[str]
    findings: list[str]

    @property
    def digest(self) -> str:
        """The same for the same end."""
        text = json.dumps([self.outcomes, self.positions, self.findings], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def golden_run(seed: int, schedule: int = 0) -> GoldenEnd:
    """Run a seed to its end, on one of its schedules."""
    gc.disable()
    profile = PROFILES[[*PROFILES][seed % len(PROFILES)]]
    way = seed * 1000 + schedule
    loop = SimulatedLoop(way, STEPS_MAX)
    world = World(way, profile, loop)
    venue = FatedVenue(profile, world.chance("venue"), world.outside, world.clock, world.note, seed=seed)
    world.venue = venue
    try:
        return loop.run_until_complete(_run(world, venue, seed, is_rough=schedule > 0))
    finally:
        loop.abandon()
        gc.enable()


async def _run(world: World, venue: FatedVenue, seed: int, *, is_rough: bool) -> GoldenEnd:
    load = GoldenLoad(world, venue, seed, [add_account(world, number) for number in range(ACCOUNTS)])
    for name in PROCESSES:
        world.start(name)
    bus, database, broker = ROUGH if is_rough else CALM
    world.suffer(database, bus, broker)
    await load.run()
    found = await until_settled(world, Checker(world, load.accepted))
    positions = [
        ", ".join(f"{symbol} {quantity}" for symbol, quantity in sorted(book.positions.items()))
        for book in world.database.books.values()
    ]
    return GoldenEnd(
        seed=seed,
        outcomes=[*load.outcomes()],
        positions=positions,
        findings=sorted(f"{bar}: {sentence}" for bar, sentence in found),
    )


def _words(command: Command) -> str:
    if isinstance(command, CancelIntent):
        return "CANCEL"
    spec = command.spec
    terms = f"{spec.quantity}{'' if spec.limit_price is None else f' at {spec.limit_price}'}"
    return f"{command.order_side} {terms}" if isinstance(command, CreateIntent) else f"REPLACE {terms}"
