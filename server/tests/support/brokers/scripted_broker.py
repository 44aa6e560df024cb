"""A broker that answers by script and remembers every write, with the executor's parts around it."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.application.execution.follow_broker import FollowBroker
from openbell_server.application.execution.ports import ExecutionStore
from openbell_server.application.execution.reconcile_account import ReconcileAccount, ReconciliationResult
from openbell_server.application.execution.record_outcomes import Door
from openbell_server.application.execution.settle_unknown import SettleUnknown
from openbell_server.application.execution.slot_leases import SlotLeases
from openbell_server.application.ports.broker import BrokerDefinition, BrokerOrder, BrokerReplacement, FeedItem
from openbell_server.brokers.paper.definition import PaperBroker
from openbell_server.brokers.paper.profiles import PAPER
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets, SignedIn, SignInRefused
from openbell_server.domain.identifiers import AccountId, IntentId, Symbol, client_order_id
from openbell_server.domain.markets.instruments import BrokerPosition, Instrument, Quote
from openbell_server.domain.money.balances import Balances
from openbell_server.domain.orders.broker_guarantees import IdClass
from openbell_server.domain.orders.broker_reports import Accepted, NotSent, OrderName, OrderReport, Outcome
from openbell_server.domain.orders.intents import ActionType
from support.brokers.execution_harness import Clock, ExecutionHarness
from support.brokers.paper_broker import until
from support.builders.tenant import a_limit_create

Answer = Outcome | Exception | Callable[[str], Awaitable[Outcome]]
LookUp = Callable[[str], Awaitable[OrderReport | None]]


@dataclass(frozen=True, slots=True)
class Write:
    """One command that left for the broker."""

    command: str
    client_order_id: str
    valid_until: datetime
    # What the account was signed in with.
    key_id: str | None
    replacement: BrokerReplacement | None = None


@dataclass(slots=True)
class ScriptedBroker:
    """Implements BrokerSession: answers from the script, then accepts; finds what is in its book unless told how."""

    script: deque[Answer] = field(default_factory=deque)
    book: dict[str, OrderReport] = field(default_factory=dict)
    writes: list[Write] = field(default_factory=list)
    calls: int = 0
    is_connected: bool = True
    look_up: LookUp | None = None
    asked: list[str] = field(default_factory=list)
    feed: asyncio.Queue[FeedItem] = field(default_factory=asyncio.Queue)
    # What it says of a key, which is yes unless told how, and who is in by which.
    admit: Callable[[str], Awaitable[SignedIn | SignInRefused]] | None = None
    sign_ins: list[tuple[AccountId, str]] = field(default_factory=list)
    keys: dict[AccountId, str] = field(default_factory=dict)
    requires_key: bool = False
    environments: dict[AccountId, Environment] = field(default_factory=dict)
    # Accounts whose own feed is away, and those that were listened to again.
    unheard: set[AccountId] = field(default_factory=set)
    again: list[AccountId] = field(default_factory=list)
    # Whether its list is up to date; one that lags shows nothing yet. Who asked for the orders of its book.
    lists: bool = True
    listed: list[tuple[AccountId, datetime]] = field(default_factory=list)
    owners: dict[str, AccountId] = field(default_factory=dict)
    # What it says an account holds, by symbol; None: it does not say.
    holdings: dict[str, Decimal] | None = None
    # What it paid for them on average, where it says so.
    averages: dict[str, Decimal] = field(default_factory=dict)
    # What it tells of an account's money, and of which it was asked.
    money: dict[AccountId, Balances | Exception] = field(default_factory=dict)
    balances_asked: list[AccountId] = field(default_factory=list)
    # What it quotes, by symbol, and what it was asked about markets.
    prices: dict[str, Quote | Exception] = field(default_factory=dict)
    markets_asked: list[tuple[str, tuple[Symbol, ...]]] = field(default_factory=list)

    async def sign_in(
        self, account_id: AccountId, environment: Environment, secrets: Secrets
    ) -> SignedIn | SignInRefused:
        self.environments[account_id] = environment
        self.sign_ins.append((account_id, secrets["key_id"]))
        answer = await self.admit(secrets["key_id"]) if self.admit else SignedIn()
        if isinstance(answer, SignedIn):
            self.keys[account_id] = secrets["key_id"]
        return answer

    async def sign_out(self, account_id: AccountId) -> None:
        self.keys.pop(account_id, None)

    async def submit(self, order: BrokerOrder) -> Outcome:
        key_id = self.keys.get(order.account_id)
        self.owners[order.client_order_id] = order.account_id
        return await self._answer(Write("submit", order.client_order_id, order.valid_until, key_id))

    async def replace(self, replacement: BrokerReplacement) -> Outcome:
        key_id = self.keys.get(replacement.account_id)
        return await self._answer(
            Write("replace", replacement.client_order_id, replacement.valid_until, key_id, replacement)
        )

    async def cancel(self, account_id: AccountId, order: OrderName, valid_until: datetime) -> Outcome:
        return await self._answer(Write("cancel", order.client_order_id, valid_until, self.keys.get(account_id)))

    async def find(self, account_id: AccountId, order: OrderName) -> OrderReport | None:
        if self.requires_key and account_id not in self.keys:
            raise PermissionError("sign in first")
        name = order.client_order_id
        self.asked.append(name)
        if self.look_up is not None:
            return await self.look_up(name)
        by_its_own = [told for told in self.book.values() if told.broker_order_id in order.broker_order_ids]
        # It finds by its own ids what it knows by none of ours.
        return self.book.get(name) or next((told for told in by_its_own if told.client_order_id is None), None)

    async def orders_since(self, account_id: AccountId, since: datetime) -> list[OrderReport]:
        """Its book of the account; an order that it does not describe was taken at some time."""
        self.listed.append((account_id, since))
        return [
            report
            for name, report in self.book.items()
            if self.lists
            and self.owners.get(name, account_id) == account_id
            and (report.description is None or report.description.accepted_at >= since)
        ]

    async def reports(self) -> AsyncIterator[FeedItem]:
        """One connect, then the feed as it is filled: it is joined once the reader has taken everything in."""
        yield None
        while True:
            yield await self.feed.get()
            self.feed.task_done()

    def listen_again(self, accounts: Collection[AccountId]) -> None:
        self.again += accounts

    async def positions(self, account_id: AccountId) -> list[BrokerPosition]:
        """Of whatever account; it raises unless it was told what it holds."""
        if self.holdings is None:
            raise NotImplementedError
        return [
            BrokerPosition(symbol=Symbol(name), quantity=quantity, average_price=self.averages.get(name))
            for name, quantity in self.holdings.items()
        ]

    async def balances(self, account_id: AccountId) -> Balances:
        """Those of the account; an exception among them is its answer."""
        self.balances_asked.append(account_id)
        found = self.money[account_id]
        if isinstance(found, Exception):
            raise found
        return found

    async def instruments(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Instrument]:
        """It knows what it has a price of."""
        self.markets_asked.append(("instruments", tuple(symbols)))
        return [
            Instrument(symbol=symbol, asset_class="us_equity", quote_currency="USD", tradable=True, fractional=False)
            for symbol in symbols
            if symbol in self.prices
        ]

    async def quotes(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Quote]:
        """Those of its prices; an exception among them is its answer."""
        self.markets_asked.append(("quotes", tuple(symbols)))
        quoted = [self.prices[symbol] for symbol in symbols if symbol in self.prices]
        for quote in quoted:
            if isinstance(quote, Exception):
                raise quote
        return [quote for quote in quoted if isinstance(quote, Quote)]

    async def close(self) -> None:
        self.is_connected = False

    async def _answer(self, write: Write) -> Outcome:
        self.calls += 1
        answer = self.script.popleft() if self.script else Accepted("b1")
        if not isinstance(answer, NotSent):
            self.writes.append(write)
        if isinstance(answer, Exception):
            raise answer
        return await answer(write.client_order_id) if callable(answer) else answer


async def until_so(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for what other tasks of this loop bring about."""

    async def is_so() -> bool:
        return condition()

    await until(is_so, seconds)


@dataclass(frozen=True, slots=True)
class Harness(ExecutionHarness):
    """One account at a broker that answers by script."""

    broker: ScriptedBroker = field(default_factory=ScriptedBroker)
    clock: Clock = field(default_factory=Clock, kw_only=True)

    async def open_doors(self, free: int = 8, *, cancels_unseen: bool = False) -> list[Door]:
        return await self.execute.open_doors(self.account, free, cancels_unseen=cancels_unseen)

    async def work(self, free: int = 8, *, cancels_unseen: bool = False) -> list[Door]:
        """Open doors and dispatch what passed them."""
        doors = await self.open_doors(free, cancels_unseen=cancels_unseen)
        await asyncio.gather(*(self.execute.dispatch(self.broker, door) for door in doors))
        return doors

    async def working(self) -> tuple[IntentId, str]:
        """An order that its broker acknowledged, and its client order id."""
        intent = await self.accept(a_limit_create())
        (door,) = await self.work()
        return intent, client_order_id(door.action.order_action_id)

    async def settle(self, settle_seconds: float, id_class: IdClass = IdClass.ECHOED, **honesty: Any) -> None:
        """Look at what is in doubt, as at a broker that is so honest; nothing is written again unless it says A."""
        capabilities = replace(
            PAPER.capabilities,
            settle_seconds=settle_seconds,
            id_classes=dict.fromkeys(ActionType, id_class),
            **{"repeats_cancels": False, **honesty},
        )
        await SettleUnknown(PostgresExecutionStore(self.pool), self.track, self.hints, self.execute)(
            self.account, self.broker, capabilities
        )

    async def reconcile(self, *heard: OrderReport, deep: bool = False, **can: Any) -> ReconciliationResult:
        """Compare the account with its broker once, which has these capabilities."""
        capabilities = replace(PAPER.capabilities, **can)
        reconcile = ReconcileAccount(PostgresExecutionStore(self.pool), self.track)
        return await reconcile(self.account, self.broker, capabilities, heard, deep=deep)

    async def position(self) -> int:
        """Of the only symbol, in whole shares."""
        return int(await self.pool.fetchval("select quantity from positions") or 0)

    async def report(self, *reports: OrderReport) -> list[OrderReport]:
        return await self.track(self.account, reports)

    @asynccontextmanager
    async def following(
        self,
        slots: SlotLeases | None = None,
        store: ExecutionStore | None = None,
        definition: BrokerDefinition | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> AsyncIterator[FollowBroker]:
        """The broker of this desk, followed until the block ends."""
        follow = FollowBroker(
            definition or PaperBroker(PAPER),
            self.broker,
            store or PostgresExecutionStore(self.pool),
            self.track,
            slots or await self.all_slots(),
            self.sign_ins,
            clock,
        )
        running = asyncio.ensure_future(follow.run())
        try:
            yield follow
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
