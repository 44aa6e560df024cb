"""Capabilities, credentials and addresses of Alpaca."""

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
from openbell_server.brokers.alpaca.session import ADDRESSES, AlpacaSession
from openbell_server.brokers.alpaca.wire import ORDER_TYPES, TIMES_IN_FORCE
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
    quantity_decimals=9,
    replace=ReplaceSupport.NATIVE_REMAINING,
    in_flight_max=4,
    # Harmless to repeat: a cancel names one order, and Alpaca refuses it once that order has ended or was replaced.
    repeats_cancels=True,
    id_classes=MappingProxyType(
        {
            ActionType.CREATE: IdClass.ENFORCED,
            # A duplicate id is refused, but the quantity of a replace is what may still fill, so a replace is never
            # repeated.
            ActionType.REPLACE: IdClass.ENFORCED,
            ActionType.CANCEL: IdClass.NONE,
        }
    ),
    look_up=LookUp.EVERY_ORDER,
    feeds_by_account=True,
    # The stream has no event for corrections, and a list of orders shows only the total of fills.
    tells_corrections=False,
    echo_seconds=10,
    # The limit of 200 calls a minute counts per account; there is none per session. A call over the limit is rejected
    # with 429 before it is processed.
    calls_per_second_max=None,
    # Alpaca does not enforce valid_until, so only a long wait proves that a command never arrived.
    settle_seconds=30,
)


class AlpacaBroker:
    """Alpaca Trading API with paper and live accounts; each has its own keys and host."""

    name = "alpaca"
    capabilities: BrokerCapabilities = _CAPABILITIES
    credentials: CredentialForm | None = CredentialForm(
        kind="alpaca_key",
        fields=(
            CredentialField(name="key_id", title="API key id", secret=False),
            CredentialField(name="secret", title="API secret key"),
        ),
    )
    addresses: Mapping[Environment, str] = ADDRESSES

    def canonical_symbol(self, text: str) -> Symbol | None:
        """Canonical form uses a dot: BRK.B for BRK/B and BRK-B. None if the text is not a symbol."""
        return share_class_symbol(text, ".")

    async def open_session(self, addresses: Mapping[Environment, str]) -> BrokerSession:
        return AlpacaSession(addresses)


ALPACA: Final = AlpacaBroker()
