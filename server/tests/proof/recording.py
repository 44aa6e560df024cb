"""A history of commands, recorded fast: judged by the database's state, accepted in sets by the real accept step."""

import itertools
import random
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from uuid import uuid4

from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.adapters.postgres.intents.accept_with_counts import keep_refusal
from openbell_server.adapters.postgres.intents.intents import PostgresIntentStore
from openbell_server.application.execution.track_orders import TrackOrders
from openbell_server.application.ports.accept_step import AcceptStatus, Submission
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.controls.evaluate import evaluate, exemption
from openbell_server.domain.controls.facts import CommandFacts, Exposure, Facts, Gate
from openbell_server.domain.controls.receipts import Evaluation, cancel_facts, command_facts, receipt_of
from openbell_server.domain.controls.rules import RuleBook
from openbell_server.domain.identifiers import ActionId, IntentId, Symbol, client_order_id
from openbell_server.domain.orders.broker_reports import BrokerExecution, OrderReport, ReportStatus
from openbell_server.domain.orders.intents import ActionType, CancelIntent, Command, CreateIntent, ReplaceIntent
from openbell_server.domain.orders.order_terms import (
    OrderSide,
    OrderSpec,
    OrderType,
    ReplacementSpec,
    RouteStrategy,
    Terms,
    TimeInForce,
)
from support.builders.tenant import Tenant, a_report, an_execution
from support.rest.rest_api import RecordedHints

SYMBOLS = tuple(
    Symbol(name) for name in ("AAPL", "AMZN", "BRK.B", "GOOG", "META", "MSFT", "NVDA", "SPY", "TSLA", "XOM")
)
SIDES = (OrderSide.BUY, OrderSide.BUY, OrderSide.SELL, OrderSide.SELL_SHORT)
SET_MAX = 64
SETS_PER_LOOK = 100
# However busy the machine is.
ANALYZE_SECONDS = 300.0
# How many of those that end have filled; how many more fill in part after each set.
FILLED = 0.5
PARTIAL_FILLS = 6
_STATE = """
select clock_timestamp() as now, s.symbol, coalesce(p.quantity, 0) as position, coalesce(o.buys, 0) as buys,
    coalesce(o.sells, 0) as sells, coalesce(o.buy_orders, 0) as buy_orders, coalesce(o.sell_orders, 0) as sell_orders,
    coalesce(o.short_orders, 0) as short_orders
from unnest($2::text[]) s (symbol)
left join positions p on p.account_id = $1 and p.symbol = s.symbol
left join (
    select o.symbol,
        sum(o.quantity - o.filled_quantity) filter (where o.order_side = 'BUY') as buys,
        sum(o.quantity - o.filled_quantity) filter (where o.order_side <> 'BUY') as sells,
        count(*) filter (where o.order_side = 'BUY') as buy_orders,
        count(*) filter (where o.order_side = 'SELL') as sell_orders,
        count(*) filter (where o.order_side = 'SELL_SHORT') as short_orders
    from orders o
    where o.account_id = $1 and o.standing <> 'CLOSED'
    group by o.symbol
) o on o.symbol = s.symbol
"""


@dataclass(slots=True)
class Working:
    """An order as the recorder has it."""

    command: CreateIntent
    order_id: str
    terms: Terms
    fills: list[BrokerExecution] = field(default_factory=list)
    # Whether the broker told of it and nothing is on its way to it.
    is_known: bool = False
    terms_version: int = 1
    is_over: bool = False

    @property
    def filled(self) -> Decimal:
        return sum((fill.quantity for fill in self.fills), Decimal(0))

    @property
    def leaves(self) -> Decimal:
        return self.terms.quantity - self.filled


@dataclass(slots=True)
class Live:
    """What the database has of each symbol when a set begins, and what the set itself adds to it."""

    now: datetime
    positions: dict[str, Decimal]
    buys: dict[str, Decimal]
    sells: dict[str, Decimal]
    orders: Counter[tuple[str, OrderSide]]

    def exposure(self, asked: CommandFacts, own: Working | None) -> Exposure:
        symbol, side = asked.symbol, asked.order_side
        buys, sells, mine = self.buys[symbol], self.sells[symbol], int(own is not None)
        if own is not None and side is OrderSide.BUY:
            buys -= own.leaves
        elif own is not None:
            sells -= own.leaves
        return Exposure(
            position=self.positions[symbol],
            position_as_of=self.now,
            working_buys=buys,
            working_sells=sells,
            open_orders=self.orders.total() - mine,
            open_orders_of_symbol=sum(self.orders[symbol, each] for each in OrderSide) - mine,
            open_orders_of_side=self.orders[symbol, side] - mine,
        )

    def add(self, asked: CommandFacts, own: Working | None) -> None:
        more = asked.terms.quantity if own is None else max(Decimal(0), asked.terms.quantity - own.terms.quantity)
        book = self.buys if asked.order_side is OrderSide.BUY else self.sells
        book[asked.symbol] += more
        self.orders[asked.symbol, asked.order_side] += own is None


@dataclass(slots=True)
class Recorder:
    """Asks, judges, records and reports by a seed."""

    pool: Pool
    tenant: Tenant
    book: RuleBook
    chance: random.Random
    # About as many orders stay open as this: the oldest end.
    open_about: int
    working: dict[IntentId, Working] = field(default_factory=dict)
    # Those that the broker told of last.
    known: deque[IntentId] = field(default_factory=lambda: deque(maxlen=100))
    recorded: Counter[str] = field(default_factory=Counter)
    # When commands were judged, and when orders of each likeness were accepted: newest first.
    judged: deque[datetime] = field(default_factory=lambda: deque(maxlen=1000))
    accepted: dict[tuple[object, ...], datetime] = field(default_factory=dict)
    refused_by: Counter[str] = field(default_factory=Counter)
    # What was recorded since the broker was last heard.
    doors: list[ActionId] = field(default_factory=list)
    changes: list[tuple[Working, Terms | None]] = field(default_factory=list)
    fills: int = 0
    last: CreateIntent | None = None

    async def record(self, commands: int) -> None:
        """Until so many commands for an order, or for more of one, were judged."""
        for place in itertools.count():
            if self.recorded["judged"] >= commands:
                return
            if place % SETS_PER_LOOK == 0:
                # Plans for tables that were empty would read all of them again and again.
                await self.pool.execute("analyze", timeout=ANALYZE_SECONDS)
            await self._set(min(SET_MAX, commands - self.recorded["judged"]))
            await self.report()

    async def _set(self, size: int) -> None:
        live, free = await self._live(), self.free()
        pending: list[tuple[Submission, CommandFacts | None]] = []
        for place in range(size):
            command = self.command(free)
            now = live.now + timedelta(microseconds=place)
            submission, asked, own = self._judged(command, live, now)
            if submission.receipt.refusals:
                # It is judged after those before it are on record.
                await self._accept(pending)
                pending = []
                await self._refuse(submission)
                continue
            if asked is not None:
                live.add(asked, own)
            pending.append((submission, asked))
        await self._accept(pending)

    def free(self) -> list[IntentId]:
        """Orders that may be changed; each once in a set."""
        known = dict.fromkeys(self.known)
        return [intent for intent in known if intent in self.working and self.working[intent].is_known]

    def command(self, free: list[IntentId]) -> Command:
        """The next one: most are for new orders, some of them for the same as before."""
        chance, draw = self.chance, self.chance.random()
        if free and draw < 0.16:
            intent = free.pop(chance.randrange(len(free)))
            own = self.working[intent]
            if draw < 0.08:
                return CancelIntent(ref_intent_id=intent)
            more = own.terms.quantity + chance.choice((-1, 1, 5)) if own.leaves > 1 else own.terms.quantity + 1
            spec = ReplacementSpec(order_type=OrderType.LIMIT, quantity=more, limit_price=own.terms.limit_price)
            return ReplaceIntent(ref_intent_id=intent, spec=spec)
        if self.last is not None and draw > 0.98:
            return self.last
        spec_of_order = OrderSpec(
            order_type=OrderType.LIMIT,
            quantity=Decimal(chance.choice((1010, *range(1, 200)))),
            limit_price=Decimal(chance.randrange(100, 900)) / 4,
            time_in_force=chance.choice((TimeInForce.DAY, TimeInForce.GOOD_TILL_CANCEL)),
        )
        self.last = CreateIntent(
            symbol=chance.choice(SYMBOLS),
            order_side=chance.choice(SIDES),
            route_strategy=RouteStrategy.SMART,
            spec=spec_of_order,
        )
        return self.last

    def _judged(
        self, command: Command, live: Live, now: datetime
    ) -> tuple[Submission, CommandFacts | None, Working | None]:
        own = None if isinstance(command, CreateIntent) else self.working[command.ref_intent_id]
        if isinstance(command, CancelIntent):
            evaluation = Evaluation(command=cancel_facts(), evaluated_at=now, exempt="CANCEL")
            return self._submission(command, evaluation), None, own
        asked = self.asked(command)
        exempt = exemption(asked)
        findings = []
        if exempt is None:
            self.recorded["judged"] += 1
            equal = self.accepted.get(_likeness(asked))
            facts = Facts(
                now=now,
                exposure=live.exposure(asked, own),
                equal_orders=[] if equal is None else [equal],
                judged={(rule.scope, rule.subject): self.judged for rule in self.book.rules},
            )
            findings = evaluate(self.book, asked, facts, Gate.ACCEPT)
            self.judged.appendleft(now)
        facts_of_command = command_facts(asked)
        if isinstance(command, ReplaceIntent):
            facts_of_command["intent_id"] = str(command.ref_intent_id)
        evaluation = Evaluation(command=facts_of_command, evaluated_at=now, findings=findings, exempt=exempt)
        submission = self._submission(command, evaluation)
        if submission.receipt.refusals:
            self.refused_by.update(submission.receipt.refusals)
        elif isinstance(command, CreateIntent):
            self.accepted[_likeness(asked)] = now
        return submission, asked, own

    def asked(self, command: CreateIntent | ReplaceIntent) -> CommandFacts:
        """A command as rules see it."""
        own = None if isinstance(command, CreateIntent) else self.working[command.ref_intent_id]
        created = command if isinstance(command, CreateIntent) else self.working[command.ref_intent_id].command
        terms = created.spec.terms
        if isinstance(command, ReplaceIntent) and own is not None:
            terms = replace(own.terms, quantity=command.spec.quantity)
        return CommandFacts(
            action_type=ActionType.CREATE if own is None else ActionType.REPLACE,
            symbol=created.symbol,
            order_side=created.order_side,
            order_type=created.spec.order_type,
            terms=terms,
            environment=self.tenant.account.environment,
            api_key_id=self.tenant.principal.id,
            before=None if own is None else own.terms,
            filled_quantity=Decimal(0) if own is None else own.filled,
        )

    def _submission(self, command: Command, evaluation: Evaluation) -> Submission:
        return self.tenant.submission(command, receipt=receipt_of(self.tenant.account, evaluation))

    async def _live(self) -> Live:
        rows = await self.pool.fetch(_STATE, self.tenant.account.id, list(SYMBOLS))
        orders: Counter[tuple[str, OrderSide]] = Counter()
        for row in rows:
            for side, name in zip(OrderSide, ("buy_orders", "sell_orders", "short_orders"), strict=True):
                orders[row["symbol"], side] = row[name]
        return Live(
            now=rows[0]["now"],
            positions={row["symbol"]: row["position"] for row in rows},
            buys={row["symbol"]: row["buys"] for row in rows},
            sells={row["symbol"]: row["sells"] for row in rows},
            orders=orders,
        )

    async def _accept(self, pending: Sequence[tuple[Submission, CommandFacts | None]]) -> None:
        if not pending:
            return
        answers = await PostgresIntentStore(self.pool).accept_across_organizations([each for each, _ in pending])
        for (submission, asked), answer in zip(pending, answers, strict=True):
            assert answer.status is AcceptStatus.ACCEPTED, (submission.command, answer)
            self.took(submission.command, submission.action_id, submission.intent_id, asked, answer.created_at)

    def took(
        self, command: Command, action_id: ActionId, intent_id: IntentId, asked: CommandFacts | None, at: datetime
    ) -> None:
        """A command is on record: it is on its way to the broker."""
        self.recorded[type(command).__name__] += 1
        self.doors.append(action_id)
        if isinstance(command, CreateIntent):
            assert asked is not None
            self.accepted[_likeness(asked)] = at
            self.working[intent_id] = Working(command, client_order_id(action_id), asked.terms)
        else:
            own = self.working[intent_id]
            own.is_known = False
            self.changes.append((own, None if asked is None else asked.terms))

    async def _refuse(self, submission: Submission) -> None:
        account = self.tenant.account
        async with transaction(self.pool, Role.TENANT, account.organization_id) as connection:
            where = (account.organization_id, account.id)
            await keep_refusal(connection, *where, submission.receipt_id, submission.receipt)
        self.recorded["refused"] += 1

    async def report(self) -> None:
        """The broker has what was sent; some of it fills, is changed or ends."""
        store = PostgresExecutionStore(self.pool)
        account = self.tenant.account
        where = BrokerAccount(account.organization_id, account.id, account.broker, account.slot)
        async with store.account_transaction(where) as at_account:
            await at_account.open_doors(self.doors, uuid4())
        reports = []
        for own, terms in self.changes:
            if terms is None:
                reports.append(self._told(own, ReportStatus.CANCELED, 0))
                continue
            own.terms, own.terms_version, own.is_known = terms, own.terms_version + 1, True
            report = self._told(own, ReportStatus.WORKING, 0)
            reports.append(replace(report, terms=terms, terms_version=own.terms_version))
        self.doors.clear()
        self.changes.clear()
        told = {report.client_order_id for report in reports}
        # The oldest end, and some of those that came last fill in part.
        oldest = itertools.islice(self.working.values(), max(0, len(self.working) - self.open_about))
        for own in [own for own in oldest if own.order_id not in told]:
            is_full = self.chance.random() < FILLED
            status = ReportStatus.FILLED if is_full else ReportStatus.EXPIRED
            reports.append(self._told(own, status, int(own.leaves) if is_full else 0))
            told.add(own.order_id)
        newest = list(itertools.islice(reversed(self.working), SET_MAX))
        for intent_id in self.chance.sample(newest, min(PARTIAL_FILLS, len(newest))):
            own = self.working[intent_id]
            if own.leaves > 1 and own.order_id not in told:
                reports.append(self._told(own, ReportStatus.WORKING, self.chance.randrange(1, int(own.leaves))))
                own.is_known = True
                self.known.append(intent_id)
        await TrackOrders(store, RecordedHints())(where, reports)
        for intent_id in [intent_id for intent_id, own in self.working.items() if own.is_over]:
            del self.working[intent_id]

    def _told(self, own: Working, status: ReportStatus, filled: int) -> OrderReport:
        news = []
        if filled:
            self.fills += 1
            self.recorded["fills"] += 1
            news.append(an_execution(self.fills, filled))
            own.fills += news
        own.is_over = status is not ReportStatus.WORKING
        self.recorded["reports"] += 1
        report = a_report(status, own.fills, news, own.order_id)
        return replace(report, broker_order_id=own.order_id)


def _likeness(asked: CommandFacts) -> tuple[object, ...]:
    return asked.symbol, asked.order_side, asked.order_type, asked.terms
