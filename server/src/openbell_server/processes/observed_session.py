"""A session with a broker, watched: calls in flight, how they ended and how long they took."""

import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Collection, Sequence
from datetime import datetime

from openbell_server.application.ports.broker import BrokerOrder, BrokerReplacement, BrokerSession, FeedItem
from openbell_server.domain.accounts import Environment
from openbell_server.domain.broker_orders import Accepted, NotSent, OrderName, OrderReport, Outcome, Refused
from openbell_server.domain.credentials import Secrets, SignedIn, SignInRefused
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.instruments import BrokerPosition, Instrument, Quote
from openbell_server.domain.intents import ActionType
from openbell_server.processes.operations import Operations


class BrokerMetrics:
    """What is counted of all brokers, by their names."""

    def __init__(self, operations: Operations) -> None:
        """Nothing is counted yet."""
        self.record_span = operations.record_span
        self.in_flight: Counter[str] = Counter()
        self.sessions: dict[str, BrokerSession] = {}
        # Those whose feed somebody asked for: a broker without accounts is not out of reach.
        self.followed: set[str] = set()
        instruments = operations.instruments
        self.calls = instruments.counter(
            "openbell_broker_calls_total",
            "Commands that were written to a broker, and how it took them: accepted, refused, not_sent or unknown.",
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
            "Whether the broker's feed stands; nothing is sent to a broker without.",
            ("broker",),
            lambda: {(name,): float(self.sessions[name].is_connected) for name in self.followed},
        )
        instruments.read(
            "gauge",
            "openbell_broker_feeds_unheard",
            "Signed-in accounts whose own feed at the broker does not stand; nothing is sent for them.",
            ("broker",),
            lambda: {(name,): len(self.sessions[name].unheard) for name in self.followed},
        )

    def watch(self, name: str, session: BrokerSession) -> BrokerSession:
        """The same session, watched."""
        self.sessions[name] = session
        return ObservedSession(name, session, self)


class ObservedSession:
    """Implements BrokerSession by another one."""

    def __init__(self, broker: str, session: BrokerSession, metrics: BrokerMetrics) -> None:
        """Passes everything on."""
        self._broker = broker
        self._session = session
        self._metrics = metrics

    @property
    def is_connected(self) -> bool:
        """Whether the feed stands."""
        return self._session.is_connected

    @property
    def unheard(self) -> Collection[AccountId]:
        """Accounts whose own feed does not stand."""
        return self._session.unheard

    async def submit(self, order: BrokerOrder) -> Outcome:
        """Ask for a new order."""
        return await self._call(ActionType.CREATE, self._session.submit(order))

    async def replace(self, replacement: BrokerReplacement) -> Outcome:
        """Ask that a working order be changed."""
        return await self._call(ActionType.REPLACE, self._session.replace(replacement))

    async def cancel(self, account_id: AccountId, order: OrderName, valid_until: datetime) -> Outcome:
        """Ask for the end of an order."""
        return await self._call(ActionType.CANCEL, self._session.cancel(account_id, order, valid_until))

    async def find(self, account_id: AccountId, order: OrderName) -> OrderReport | None:
        """The order by our id."""
        return await self._session.find(account_id, order)

    async def orders_since(self, account_id: AccountId, since: datetime) -> list[OrderReport]:
        """Every order since a time."""
        return await self._session.orders_since(account_id, since)

    async def positions(self, account_id: AccountId) -> list[BrokerPosition]:
        """What the account holds."""
        return await self._session.positions(account_id)

    async def instruments(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Instrument]:
        """What of these the broker trades."""
        return await self._session.instruments(account_id, symbols)

    async def quotes(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Quote]:
        """The latest prices of these."""
        return await self._session.quotes(account_id, symbols)

    async def sign_in(
        self, account_id: AccountId, environment: Environment, secrets: Secrets
    ) -> SignedIn | SignInRefused:
        """Use these secrets for the account."""
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
        """Forget the account's secrets."""
        await self._session.sign_out(account_id)

    def reports(self) -> AsyncIterator[FeedItem]:
        """Reports as they come."""
        self._metrics.followed.add(self._broker)
        return self._session.reports()

    def listen_again(self, accounts: Collection[AccountId]) -> None:
        """Begin the own feeds of these accounts anew."""
        self._session.listen_again(accounts)

    async def close(self) -> None:
        """Let go of the connection."""
        await self._session.close()

    async def _call(self, action_type: ActionType, call: Awaitable[Outcome]) -> Outcome:
        metrics, broker, outcome = self._metrics, self._broker, "unknown"
        begun = time.perf_counter()
        metrics.in_flight[broker] += 1
        try:
            answer = await call
            outcome = _word(answer)
            return answer
        finally:
            # A call that takes too long ends by being cancelled: it may have arrived.
            elapsed = time.perf_counter() - begun
            metrics.in_flight[broker] -= 1
            metrics.calls.labels(broker, action_type, outcome).inc()
            metrics.seconds.labels(broker, action_type).observe(elapsed)
            attributes = {"openbell.broker": broker, "openbell.action_type": action_type, "openbell.outcome": outcome}
            metrics.record_span("broker call", elapsed, attributes)


def _word(outcome: Outcome) -> str:
    match outcome:
        case Accepted():
            return "accepted"
        case Refused():
            return "refused"
        case NotSent():
            return "not_sent"
    return "unknown"
