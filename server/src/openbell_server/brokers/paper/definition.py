"""What the paper broker can do, and how to reach it."""

from openbell_server.application.ports.broker import (
    BrokerCapabilities,
    BrokerSession,
    CredentialField,
    CredentialForm,
    ReplaceSupport,
)
from openbell_server.brokers.paper.session import PaperSession
from openbell_server.domain.broker_honesty import IdClass
from openbell_server.domain.identifiers import Symbol, canonical_symbol
from openbell_server.domain.intents import ActionType
from openbell_server.domain.orders import OrderType, RouteStrategy, TimeInForce


class PaperBroker:
    """The built-in broker."""

    name = "paper"
    # It refuses what arrives after valid_until, so six seconds cover the door, the wire and a lagging look-up.
    capabilities = BrokerCapabilities(
        order_types=frozenset(OrderType),
        times_in_force=frozenset(TimeInForce),
        route_strategies=frozenset(RouteStrategy),
        default_time_in_force=TimeInForce.DAY,
        replace=ReplaceSupport.NATIVE_TOTAL,
        in_flight_max=8,
        calls_at_once_max=32,
        repeats_cancels=True,
        id_classes=dict.fromkeys(ActionType, IdClass.ENFORCED),
        cancels_by_client_id=True,
        enforces_valid_until=True,
        settle_seconds=6,
    )

    # An account may do without; one that has a key trades with it, so that changing keys can be tried out.
    credentials: CredentialForm | None = CredentialForm(
        kind="paper_key",
        fields=(
            CredentialField(name="key_id", title="Key id", secret=False),
            CredentialField(name="secret", title="Secret"),
        ),
        required=False,
    )

    def canonical_symbol(self, text: str) -> Symbol | None:
        """The one spelling of a symbol, or None."""
        return canonical_symbol(text)

    async def open_session(self, address: str) -> BrokerSession:
        """A session with the paper broker at this http address."""
        return PaperSession(address)
