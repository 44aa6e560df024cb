"""Capabilities, credentials and addresses of Tradier."""

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
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.identifiers import Symbol, share_class_symbol
from openbell_server.domain.orders.broker_guarantees import IdClass, LookUp
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import RouteStrategy, TimeInForce

_CAPABILITIES: Final = BrokerCapabilities(
    order_types=frozenset(ORDER_TYPES),
    times_in_force=frozenset(TIMES_IN_FORCE),
    route_strategies=frozenset({RouteStrategy.SMART}),
    default_time_in_force=TimeInForce.DAY,
    quantity_decimals=0,
    # Tradier can change the prices of an order but not its quantity. Our replace always contains all terms, so it is
    # not offered rather than rejected in some cases.
    replace=ReplaceSupport.NONE,
    in_flight_max=4,
    # Harmless to repeat: a cancel names one order, and Tradier refuses it once that order has ended.
    repeats_cancels=True,
    # Tradier returns the tag exactly, but accepts a second order with the same tag. A cancel has no tag.
    id_classes=MappingProxyType({ActionType.CREATE: IdClass.ECHOED, ActionType.CANCEL: IdClass.NONE}),
    # There is no query by tag, but the list of today's orders contains tags, also of ended orders, and another list
    # covers more than a month. A list without tags proves nothing and counts as no answer.
    look_up=LookUp.EVERY_ORDER,
    feeds_by_account=True,
    # The list is polled within a second after a command, and every three seconds otherwise.
    echo_seconds=10,
    # It reports the filled quantity and the average price, but no single executions.
    names_executions=False,
    # A smaller total does not identify the execution that was corrected.
    tells_corrections=False,
    # The limits of 60 orders and 120 queries a minute count per token. A call over the limit is rejected before it is
    # processed.
    calls_per_second_max=None,
    # Tradier does not enforce valid_until, so only a long wait proves that a command never arrived.
    settle_seconds=30,
)


class TradierBroker:
    """Tradier Brokerage API with sandbox and live accounts; each has its own token and host."""

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
        """Canonical form uses a slash: BRK/B for BRK.B and BRK-B. None if the text is not a symbol."""
        return share_class_symbol(text, "/")

    async def open_session(self, addresses: Mapping[Environment, str]) -> BrokerSession:
        return TradierSession(addresses)


TRADIER: Final = TradierBroker()
