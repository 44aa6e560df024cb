"""What Tradier can do, and how to reach it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from openbell_server.application.ports.broker import (
    BrokerCapabilities,
    BrokerSession,
    CredentialField,
    CredentialForm,
    ReplaceSupport,
)
from openbell_server.brokers.tradier.session import ADDRESSES, TradierSession
from openbell_server.brokers.tradier.wire import ORDER_TYPES, TIMES_IN_FORCE
from openbell_server.domain.accounts import Environment
from openbell_server.domain.broker_honesty import IdClass, LookUp
from openbell_server.domain.identifiers import Symbol, share_class_symbol
from openbell_server.domain.intents import ActionType
from openbell_server.domain.orders import RouteStrategy, TimeInForce

_CAPABILITIES: Final = BrokerCapabilities(
    order_types=frozenset(ORDER_TYPES),
    times_in_force=frozenset(TIMES_IN_FORCE),
    route_strategies=frozenset({RouteStrategy.SMART}),
    default_time_in_force=TimeInForce.DAY,
    # Whole shares only.
    quantity_decimals=0,
    # It changes the prices of an order in place, but never its quantity. A replace of ours has all terms, and there is
    # no word for half of one: better none than one that fails where it is least expected.
    replace=ReplaceSupport.NONE,
    in_flight_max=4,
    # A cancel names one order: of one that has ended it is refused, and does nothing.
    repeats_cancels=True,
    # The tag is told back exactly, and a second order with the same one is taken. A cancel has no place for any.
    id_classes=MappingProxyType({ActionType.CREATE: IdClass.ECHOED, ActionType.CANCEL: IdClass.NONE}),
    # Not by the tag itself: but the list of today's orders tells tags, ended orders too, and another reaches back over
    # a month. A list that tells no tags is no evidence, and counts as not answered.
    look_up=LookUp.EVERY_ORDER,
    feeds_by_account=True,
    # After a command the list is asked for within a second, and every three anyhow.
    echo_seconds=10,
    # It tells how much has filled, at what price on the whole, and no execution by itself.
    names_executions=False,
    # Totals that become less name no execution.
    tells_corrections=False,
    # Its limits, 60 orders and 120 questions a minute, are each token's own. Who asks too often is turned away unread.
    calls_per_second_max=None,
    # Nothing ends a command that is on its way, so only a long wait proves anything.
    settle_seconds=30,
)


class TradierBroker:
    """Tradier Brokerage API: sandbox and live accounts, each with its own token and host."""

    name = "tradier"
    capabilities: BrokerCapabilities = _CAPABILITIES
    credentials: CredentialForm | None = CredentialForm(
        kind="tradier_token",
        fields=(
            CredentialField(name="account", title="Account number", secret=False, length_max=32),
            CredentialField(name="token", title="Access token"),
        ),
    )
    addresses: Mapping[Environment, str] = ADDRESSES

    def canonical_symbol(self, text: str) -> Symbol | None:
        """The one spelling of a symbol, BRK/B for BRK.B and BRK-B, or None."""
        return share_class_symbol(text, "/")

    async def open_session(self, addresses: Mapping[Environment, str]) -> BrokerSession:
        """A session with Tradier, or with what speaks its language, at these addresses."""
        return TradierSession(addresses)


TRADIER: Final = TradierBroker()
