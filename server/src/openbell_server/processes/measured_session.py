"""Measures a broker session: calls in flight, outcomes and durations."""

import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Collection, Sequence
from datetime import datetime

import prometheus_client

from openbell_server.application.ports.broker import BrokerOrder, BrokerReplacement, BrokerSession, FeedItem
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets, SignedIn, SignInRefused
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.markets.instruments import BrokerPosition, Instrument, Quote
from openbell_server.domain.money.balances import Balances
from openbell_server.domain.orders.broker_reports import Accepted, NotSent, OrderName, OrderReport, Outcome, Refused
from openbell_server.domain.orders.intents import ActionType
from openbell_server.processes.operations_port import Operations


class BrokerMetrics:
    def __init__(self, operations: Operations) -> None:
        self.record_span = operations.record_span
        self.in_flight: Counter[str] = Counter()
        # The counters by their labels, which take longer to look up than to count.
        self._of_labels: dict[
            tuple[str, ActionType, str], tuple[prometheus_client.Counter, prometheus_client.Histogram]
        ] = {}
        self.sessions: dict[str, BrokerSession] = {}
        # Brokers whose feed is read; a broker without accounts is not shown as disconnected.
        self.followed: set[str] = set()
        instruments = operations.instruments
        self.calls = instruments.counter(
            "openbell_broker_calls_total",
            "Commands to a broker by outcome: accepted, refused, not_sent or unknown.",
            *("broker", "action_type", "outcome"),
        )
        self.seconds = instruments.histogram(
            "openbell_broker_call_seconds", "How long a broker took to answer a command.", "broker", "action_type"
        )
        self.sign_ins = instruments.counter(
            "openbell_broker_sign_ins_total",
            "Sign-ins of accounts at a broker: signed_in, refused, expired, or unanswered.",
            *("broker", "result"),
        )
        instruments.read(
            "gauge",
            "openbell_broker_calls_in_flight",
            "Commands that a broker has not answered yet.",
            ("broker",),
            lambda: {(name,): self.in_flight[name] for name in self.sessions},
        )
        instruments.read(
            "gauge",
            "openbell_broker_feed_connected",
            "Whether the broker's feed is connected; without it nothing is sent to the broker.",
            ("broker",),
            lambda: {(name,): float(self.sessions[name].is_connected) for name in self.followed},
        )
        instruments.read(
            "gauge",
            "openbell_broker_feeds_unheard",
            "Signed-in accounts whose own feed at the broker is not connected; nothing is sent for them.",
            ("broker",),
            lambda: {(name,): len(self.sessions[name].unheard) for name in self.followed},
        )

    def count(self, broker: str, action_type: ActionType, outcome: str, elapsed: float) -> None:
        key = broker, action_type, outcome
        if key not in self._of_labels:
            self._of_labels[key] = self.calls.labels(*key), self.seconds.labels(broker, action_type)
        calls, seconds = self._of_labels[key]
        calls.inc()
        seconds.observe(elapsed)

    def watch(self, name: str, session: BrokerSession) -> BrokerSession:
        self.sessions[name] = session
        return ObservedSession(name, session, self)


class ObservedSession:
    """Implements BrokerSession by delegating to another one."""

    def __init__(self, broker: str, session: BrokerSession, metrics: BrokerMetrics) -> None:
        self._broker = broker
        self._session = session
        self._metrics = metrics

    @property
    def is_connected(self) -> bool:
        return self._session.is_connected

    @property
    def unheard(self) -> Collection[AccountId]:
        return self._session.unheard

    async def submit(self, order: BrokerOrder) -> Outcome:
        return await self._call(ActionType.CREATE, self._session.submit(order))

    async def replace(self, replacement: BrokerReplacement) -> Outcome:
        return await self._call(ActionType.REPLACE, self._session.replace(replacement))

    async def cancel(self, account_id: AccountId, order: OrderName, valid_until: datetime) -> Outcome:
        return await self._call(ActionType.CANCEL, self._session.cancel(account_id, order, valid_until))

    async def find(self, account_id: AccountId, order: OrderName) -> OrderReport | None:
        return await self._session.find(account_id, order)

    async def orders_since(self, account_id: AccountId, since: datetime) -> list[OrderReport]:
        return await self._session.orders_since(account_id, since)

    async def positions(self, account_id: AccountId) -> list[BrokerPosition]:
        return await self._session.positions(account_id)

    async def balances(self, account_id: AccountId) -> Balances:
        return await self._session.balances(account_id)

    async def instruments(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Instrument]:
        return await self._session.instruments(account_id, symbols)

    async def quotes(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Quote]:
        return await self._session.quotes(account_id, symbols)

    async def sign_in(
        self, account_id: AccountId, environment: Environment, secrets: Secrets
    ) -> SignedIn | SignInRefused:
        result = "unanswered"
        try:
            answer = await self._session.sign_in(account_id, environment, secrets)
            if isinstance(answer, SignInRefused):
                result = "expired" if answer.expired else "refused"
                return answer
            result = "signed_in"
            return answer
        finally:
            self._metrics.sign_ins.labels(self._broker, result).inc()

    async def sign_out(self, account_id: AccountId) -> None:
        await self._session.sign_out(account_id)

    def reports(self) -> AsyncIterator[FeedItem]:
        self._metrics.followed.add(self._broker)
        return self._session.reports()

    def listen_again(self, accounts: Collection[AccountId]) -> None:
        self._session.listen_again(accounts)

    async def close(self) -> None:
        await self._session.close()

    async def _call(self, action_type: ActionType, call: Awaitable[Outcome]) -> Outcome:
        metrics, broker, outcome = self._metrics, self._broker, "unknown"
        begun = time.perf_counter()
        metrics.in_flight[broker] += 1
        try:
            answer = await call
            outcome = _outcome_label(answer)
            return answer
        finally:
            # A call that times out is cancelled; it may have arrived.
            elapsed = time.perf_counter() - begun
            metrics.in_flight[broker] -= 1
            metrics.count(broker, action_type, outcome, elapsed)
            attributes = {"openbell.broker": broker, "openbell.action_type": action_type, "openbell.outcome": outcome}
            metrics.record_span("broker call", elapsed, attributes)


def _outcome_label(outcome: Outcome) -> str:
    match outcome:
        case Accepted():
            return "accepted"
        case Refused():
            return "refused"
        case NotSent():
            return "not_sent"
    return "unknown"
