"""What execution needs from a broker: what it can do, as data, and a session that does it."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Protocol

from openbell_server.domain.accounts import Environment
from openbell_server.domain.broker_honesty import SETTLES_BY, IdClass, LookUp
from openbell_server.domain.broker_orders import OrderName, OrderReport, Outcome
from openbell_server.domain.credentials import Secrets, SignedIn, SignInRefused
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.instruments import BrokerPosition, Instrument, Quote
from openbell_server.domain.intents import ActionType
from openbell_server.domain.orders import OrderSide, OrderType, RouteStrategy, Terms, TimeInForce


class ReplaceSupport(StrEnum):
    """How a broker replaces an order, if it does; what it cannot do is never made of a cancel and a new order."""

    # Its own quantity is the total, as ours is.
    NATIVE_TOTAL = "native_total"
    # Its own quantity is what may still fill: the session converts, both ways.
    NATIVE_REMAINING = "native_remaining"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCapabilities:
    """What a broker allows and how honest its ids are; behaviour follows from this, never from a broker's name."""

    order_types: frozenset[OrderType]
    times_in_force: frozenset[TimeInForce]
    route_strategies: frozenset[RouteStrategy]
    default_time_in_force: TimeInForce
    # Where its accounts may trade.
    environments: frozenset[Environment] = frozenset(Environment)
    # Digits after the point of a quantity; 0 where only whole shares trade.
    quantity_decimals: int = 18
    replace: ReplaceSupport = ReplaceSupport.NONE
    in_flight_max: int = 4
    # Calls that one session carries at the same time, over all its accounts.
    calls_at_once_max: int = 16
    # Whether the same cancel may be written again: true only where a repeat can do nothing new.
    repeats_cancels: bool = False
    # What it does with our ids, by command; one that is not there has none.
    id_classes: Mapping[ActionType, IdClass] = field(default_factory=dict)
    look_up: LookUp = LookUp.EVERY_ORDER
    # Whether an order can be cancelled by our id before the broker has told its own.
    cancels_by_client_id: bool = False
    # Whether it refuses a command that arrives after its valid_until.
    enforces_valid_until: bool = False
    # Whether every account has a feed of its own, which begins when it is signed in.
    feeds_by_account: bool = False
    # Whether its reports name every execution; one that tells totals only has its executions derived from them.
    names_executions: bool = True
    # Whether it tells of an execution that it was taken back or corrected.
    tells_corrections: bool = True
    # How soon after an answer its feed tells of the order too; a feed that stays silent for longer is mute.
    echo_seconds: float = 10.0
    # Calls in a second over all accounts of one session, and how many of them only cancels and look-ups may use.
    calls_per_second_max: float | None = None
    calls_reserved: float = 0.2
    # How long after the door a look-up that finds nothing proves that nothing is there, and one that shows an order
    # unchanged proves that nothing will change it.
    settle_seconds: float

    def settles_by(self, command: ActionType) -> str:
        """What would end a doubt about such a command, in words."""
        id_class = self.id_classes.get(command, IdClass.NONE)
        if command is ActionType.REPLACE and not self.may_repeat(command):
            # However well its id is kept, a change of what remains is another one the second time.
            id_class = IdClass.NONE
        return SETTLES_BY[command, self.look_up, id_class]

    def may_repeat(self, command: ActionType) -> bool:
        """Whether one that provably never arrived may be written again: a second copy would be refused, or be the same.

        A CANCEL has no proof of its own, and repeats_cancels says all about it.
        """
        harmless = command is ActionType.CREATE or (
            command is ActionType.REPLACE and self.replace is ReplaceSupport.NATIVE_TOTAL
        )
        return harmless and self.id_classes.get(command) is IdClass.ENFORCED


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialField:
    """One thing that a broker asks for to let an account in."""

    name: str
    title: str
    # What is not secret may be shown in part, so that people can tell two credentials apart.
    secret: bool = True
    length_max: int = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialForm:
    """What an account signs in with at a broker."""

    kind: str
    fields: tuple[CredentialField, ...]
    # Whether an account can trade without.
    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOrder:
    """A new order as the broker is asked for it."""

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
    # The broker must not take it later than this; a paused sender cannot wake up and trade.
    valid_until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerReplacement:
    """A change of an order as the broker is asked for it."""

    account_id: AccountId
    # The order's, and the id of this command.
    order: OrderName
    client_order_id: str
    terms: Terms
    # What had filled when the door opened, for brokers that count what may still fill.
    filled_quantity: Decimal
    valid_until: datetime


class SlowDown(Exception):
    """Raised by whoever asks a broker that wants calm: for how many seconds, 0 if it does not say.

    A command that it turned away unread is answered with NotSent, which tells the same.
    """

    def __init__(self, retry_after: float) -> None:
        """The broker named these seconds."""
        super().__init__(f"the broker asks to be left alone for {retry_after:g} s")
        self.retry_after = retry_after


class NotSignedIn(Exception):
    """Raised by a session that is asked about an account which must be signed in and is not.

    It is no failure of anything: how the account stands with its broker says why.
    """


# A report about an order of an account. None instead of the report says that the account's own feed is connected, None
# alone that the feed of all is: everything after this point will be told.
FeedItem = tuple[AccountId, OrderReport | None] | None


class BrokerSession(Protocol):
    """A connection to one broker. Any exception out of submit, replace or cancel counts as Unknown."""

    @property
    def is_connected(self) -> bool:
        """Whether the feed stands; nothing is sent to a broker that could not tell us what became of it."""

    @property
    def unheard(self) -> Collection[AccountId]:
        """Signed-in accounts whose own feed does not stand; none where one feed tells of all.

        Each is one from before its sign-in returns, and again from the moment its feed breaks, until `reports` gives
        its next beginning to the reader: a feed that stands and was not announced would open doors unnoticed.
        """

    async def submit(self, order: BrokerOrder) -> Outcome:
        """Ask for a new order: written once, no retry inside."""

    async def replace(self, replacement: BrokerReplacement) -> Outcome:
        """Ask that a working order be changed: written once, no retry inside."""

    async def cancel(self, account_id: AccountId, order: OrderName, valid_until: datetime) -> Outcome:
        """Ask for the end of an order."""

    async def find(self, account_id: AccountId, order: OrderName) -> OrderReport | None:
        """The order with all its executions; None only if the broker says that it has none.

        One that ended is found where the broker looks up every order. Where orders can be replaced it shows the terms
        as they are now.
        """

    async def orders_since(self, account_id: AccountId, since: datetime) -> list[OrderReport]:
        """Every order of the account that the broker took at or after a time, closed ones too, with all its executions.

        Complete or an exception: a list that broke off would pass for proof that an order is not there. Refused orders
        need not be listed, and an order is listed only once `find` finds it. The time is on the broker's clock: a
        caller subtracts what the clocks may differ by.
        """

    async def positions(self, account_id: AccountId) -> list[BrokerPosition]:
        """What the account holds by the broker's books; complete or an exception."""

    async def instruments(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Instrument]:
        """Those of the symbols that the broker trades, with their rules."""

    async def quotes(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Quote]:
        """The latest prices of those symbols that the broker quotes."""

    async def sign_in(
        self, account_id: AccountId, environment: Environment, secrets: Secrets
    ) -> SignedIn | SignInRefused:
        """Use these secrets for the account from now on, if the broker takes them; an exception tells nothing.

        What is sent for the account goes to its environment's address and to no other.
        """

    async def sign_out(self, account_id: AccountId) -> None:
        """Forget the account's secrets and end what was opened with them."""

    def reports(self) -> AsyncIterator[FeedItem]:
        """Reports as they come, and where a feed begins."""

    def listen_again(self, accounts: Collection[AccountId]) -> None:
        """Begin the own feeds of these accounts anew: they have fallen silent."""

    async def close(self) -> None:
        """Let go of the connection."""


class BrokerDefinition(Protocol):
    """A broker: its name, what it can do, and how to reach it."""

    @property
    def name(self) -> str:
        """As accounts name it."""

    @property
    def capabilities(self) -> BrokerCapabilities:
        """What it can do."""

    @property
    def credentials(self) -> CredentialForm | None:
        """What accounts sign in with; None where there is nothing to sign in to."""

    def canonical_symbol(self, text: str) -> Symbol | None:
        """The one spelling of a symbol at this broker, or None."""

    @property
    def addresses(self) -> Mapping[Environment, str]:
        """Where it is, by environment; none for a broker that an operator runs."""

    async def open_session(self, addresses: Mapping[Environment, str]) -> BrokerSession:
        """A session with the broker at these addresses; an environment without one cannot be traded in."""
