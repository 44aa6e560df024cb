"""A broker: its capabilities as data, and a session that sends commands and reads reports."""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final, Protocol

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets, SignedIn, SignInRefused
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.markets.instruments import BrokerPosition, Instrument, Quote
from openbell_server.domain.money.balances import Balances
from openbell_server.domain.orders.broker_guarantees import SETTLES_BY, IdClass, LookUp
from openbell_server.domain.orders.broker_reports import OrderName, OrderReport, Outcome
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, RouteStrategy, Terms, TimeInForce


class ReplaceSupport(StrEnum):
    """How a broker replaces an order; a replace is never emulated by a cancel and a new order."""

    # The broker's quantity is the total, as ours is.
    NATIVE_TOTAL = "NATIVE_TOTAL"
    # The broker's quantity is what may still fill: the session converts both ways.
    NATIVE_REMAINING = "NATIVE_REMAINING"
    NONE = "NONE"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCapabilities:
    """What a broker supports and guarantees; behaviour depends on this, never on a broker's name."""

    order_types: frozenset[OrderType]
    times_in_force: frozenset[TimeInForce]
    route_strategies: frozenset[RouteStrategy]
    default_time_in_force: TimeInForce
    # Where its accounts may trade.
    environments: frozenset[Environment] = frozenset(Environment)
    # Decimal digits of a quantity; 0 if only whole shares trade.
    quantity_decimals: int = 18
    replace: ReplaceSupport = ReplaceSupport.NONE
    in_flight_max: int = 4
    # Concurrent calls of one session, over all its accounts.
    calls_at_once_max: int = 16
    # Whether a cancel may be sent again: true only if a repeat is harmless.
    repeats_cancels: bool = False
    # What the broker does with our ids, by command; a missing command means IdClass.NONE.
    id_classes: Mapping[ActionType, IdClass] = field(default_factory=dict)
    look_up: LookUp = LookUp.EVERY_ORDER
    # Whether an order can be cancelled by our id before the broker has reported its own.
    cancels_by_client_id: bool = False
    # Whether the broker refuses a command that arrives after its valid_until.
    enforces_valid_until: bool = False
    # Whether every account has its own feed, which starts with its sign-in.
    feeds_by_account: bool = False
    # Whether reports list every execution; if they have totals only, executions are derived from them.
    names_executions: bool = True
    # Whether the broker reports busts and corrections of executions.
    tells_corrections: bool = True
    # How soon after an answer the feed reports the order too; a feed that takes longer counts as silent.
    echo_seconds: float = 10.0
    # Calls per second over all accounts of one session, and the share that only cancels and look-ups may use.
    calls_per_second_max: float | None = None
    calls_reserved: float = 0.2
    # How long after the door a look-up that finds nothing proves that the order never arrived, and one that shows an
    # unchanged order proves that the change never arrived.
    settle_seconds: float

    def settles_by(self, command: ActionType) -> str:
        """A text for people: what would settle an unknown outcome of such a command."""
        id_class = self.id_classes.get(command, IdClass.NONE)
        if command is ActionType.REPLACE and not self.may_repeat(command):
            # Even with an enforced id, a repeated change of the remaining quantity would change the order twice.
            id_class = IdClass.NONE
        return SETTLES_BY[command, self.look_up, id_class]

    def may_repeat(self, command: ActionType) -> bool:
        """Whether a command that provably never arrived may be sent again: a second copy is refused or harmless.

        Not for a CANCEL, which repeats_cancels covers.
        """
        harmless = command is ActionType.CREATE or (
            command is ActionType.REPLACE and self.replace is ReplaceSupport.NATIVE_TOTAL
        )
        return harmless and self.id_classes.get(command) is IdClass.ENFORCED


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialField:
    name: str
    title: str
    # A field that is not secret may be shown in part, so that people can distinguish two credentials.
    secret: bool = True
    length_max: int = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialForm:
    kind: str
    fields: tuple[CredentialField, ...]
    # Whether an account needs a credential to trade.
    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOrder:
    account_id: AccountId
    client_order_id: str
    symbol: Symbol
    order_side: OrderSide
    order_type: OrderType
    route_strategy: RouteStrategy
    quantity: Decimal
    limit_price: Decimal | None
    stop_price: Decimal | None
    time_in_force: TimeInForce
    # The broker must not accept it later than this, so that a paused sender cannot trade late.
    valid_until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerReplacement:
    account_id: AccountId
    # The order's ids, and the id of this command.
    order: OrderName
    client_order_id: str
    terms: Terms
    # The filled quantity when the door opened, for brokers that use the remaining quantity.
    filled_quantity: Decimal
    valid_until: datetime


class QueryFailed(Exception):
    """The broker did not answer a query, or not so that it can be used. It is repeated later."""


class SlowDown(QueryFailed):
    """Raised by queries when the broker requests a pause: for how many seconds, 0 if it gives no time.

    A command that the broker refused for the same reason returns NotSent with retry_after.
    """

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"the broker requests a pause of {retry_after:g} s")
        self.retry_after = retry_after


# What a query raises if it has no answer, or none that can be used. It is repeated later.
LOOK_UP_ERRORS: Final = (QueryFailed, TimeoutError)


class NotSignedIn(Exception):
    """Raised for an account that must be signed in and is not.

    It is not logged as an error: the account's credential status shows the reason.
    """


# A report about an order of an account. None instead of the report means that the account's own feed connected, None
# alone that the common feed did: everything after this point is reported.
FeedItem = tuple[AccountId, OrderReport | None] | None


class BrokerSession(Protocol):
    """A connection to one broker. Any exception out of submit, replace or cancel counts as Unknown."""

    @property
    def is_connected(self) -> bool:
        """Whether the feed is connected; without it nothing is sent, because outcomes would not be reported."""

    @property
    def unheard(self) -> Collection[AccountId]:
        """Signed-in accounts whose own feed is not connected; empty for a broker with one common feed.

        An account is in it before its sign-in returns, and again as soon as its feed breaks, until `reports` yields
        the next start of the feed: otherwise commands could be sent before the reader knows that it must reconcile.
        """

    async def submit(self, order: BrokerOrder) -> Outcome:
        """Send a new order once, without retries."""

    async def replace(self, replacement: BrokerReplacement) -> Outcome:
        """Send a change of a working order once, without retries."""

    async def cancel(self, account_id: AccountId, order: OrderName, valid_until: datetime) -> Outcome: ...

    async def find(self, account_id: AccountId, order: OrderName) -> OrderReport | None:
        """The order with all its executions; None only if the broker confirms that there is none.

        A closed order is found only if the broker looks up every order. If orders can be replaced, the report has the
        current terms.
        """

    async def orders_since(self, account_id: AccountId, since: datetime) -> list[OrderReport]:
        """Every order that the broker accepted at or after a time, closed ones too, with all its executions.

        Complete or an exception, because an incomplete list would prove falsely that an order does not exist. Refused
        orders need not be listed, and an order is listed only once `find` finds it. The time is on the broker's clock:
        the caller subtracts the possible difference of the clocks.
        """

    async def positions(self, account_id: AccountId) -> list[BrokerPosition]:
        """All positions of the account, or an exception."""

    async def balances(self, account_id: AccountId) -> Balances:
        """The account's balances, or an exception."""

    async def instruments(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Instrument]:
        """The instruments of those symbols that the broker trades."""

    async def quotes(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Quote]:
        """The latest quotes of those symbols that the broker quotes."""

    async def sign_in(
        self, account_id: AccountId, environment: Environment, secrets: Secrets
    ) -> SignedIn | SignInRefused:
        """Use these secrets for the account from now on, if the broker accepts them; after an exception it is unknown.

        Calls for the account go to the address of its environment only.
        """

    async def sign_out(self, account_id: AccountId) -> None:
        """Forget the account's secrets and close connections that use them."""

    def reports(self) -> AsyncIterator[FeedItem]:
        """Reports as they arrive, and an item whenever a feed connects."""

    def listen_again(self, accounts: Collection[AccountId]) -> None:
        """Restart the own feeds of these accounts, because they fell silent."""

    async def close(self) -> None: ...


class BrokerDefinition(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> BrokerCapabilities: ...

    @property
    def credentials(self) -> CredentialForm | None:
        """The credential form; None if the broker needs no sign-in."""

    def canonical_symbol(self, text: str) -> Symbol | None:
        """The symbol as this broker spells it; None if it is not a valid symbol."""

    @property
    def addresses(self) -> Mapping[Environment, str]:
        """Base URLs by environment; empty for a broker that the operator runs."""

    async def open_session(self, addresses: Mapping[Environment, str]) -> BrokerSession:
        """A session with the broker at these addresses; an environment without an address cannot be traded."""


def spellings(brokers: Iterable[BrokerDefinition], text: str) -> frozenset[Symbol]:
    """The symbol as each of these brokers spells it; empty if it is a valid symbol of none."""
    found = (broker.canonical_symbol(text) for broker in brokers)
    return frozenset(symbol for symbol in found if symbol is not None)
