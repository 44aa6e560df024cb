"""What Alpaca can do, and how to reach it."""

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
    quantity_decimals=9,
    replace=ReplaceSupport.NATIVE_REMAINING,
    in_flight_max=4,
    # A cancel names one order: of one that has ended or was replaced it is refused, and does nothing.
    repeats_cancels=True,
    id_classes=MappingProxyType(
        {
            ActionType.CREATE: IdClass.ENFORCED,
            # No second one is taken either; but it asks for what may still fill, so that it is not repeated.
            ActionType.REPLACE: IdClass.ENFORCED,
            ActionType.CANCEL: IdClass.NONE,
        }
    ),
    look_up=LookUp.EVERY_ORDER,
    feeds_by_account=True,
    # Its stream has no word for them, and what fills come to is all that a list shows.
    tells_corrections=False,
    echo_seconds=10,
    # Its limit of 200 calls a minute is each account's own, and over all accounts of a session there is none. Who asks
    # too often is turned away unread, and told so.
    calls_per_second_max=None,
    # Nothing ends a command that is on its way, so only a long wait proves anything.
    settle_seconds=30,
)


class AlpacaBroker:
    """Alpaca Trading API: paper and live accounts, each with its own keys and host."""

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
        """The one spelling of a symbol, BRK.B for BRK/B and BRK-B, or None."""
        return share_class_symbol(text, ".")

    async def open_session(self, addresses: Mapping[Environment, str]) -> BrokerSession:
        """A session with Alpaca, or with what speaks its language, at these addresses."""
        return AlpacaSession(addresses)


ALPACA: Final = AlpacaBroker()
