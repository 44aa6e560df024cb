"""Four kinds of brokers, by what they do with the ids that we give our orders."""

from dataclasses import dataclass
from typing import Final

from openbell_server.application.ports.broker import BrokerCapabilities, CredentialForm, ReplaceSupport
from openbell_server.domain.identifiers import Symbol, canonical_symbol
from openbell_server.domain.orders import OrderType, RouteStrategy, TimeInForce

# Door, way and whatever a broker may dawdle: after these nothing can arrive any more, nor stay hidden.
LATE_SECONDS_MAX: Final = 4.0
LAG_SECONDS_MAX: Final = 2.0
SETTLE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One kind of broker; implements BrokerDefinition but for opening a session."""

    name: str
    # How long a repeated id is refused.
    id_seconds: float
    keeps_ids: bool = True
    honours_valid_until: bool = False
    # Whether it is never later than it is said to be.
    is_on_time: bool = False
    repeats_cancels: bool = True
    late_max: float = LATE_SECONDS_MAX
    lag_max: float = 0
    credentials: CredentialForm | None = None

    @property
    def capabilities(self) -> BrokerCapabilities:
        """What it can do."""
        return BrokerCapabilities(
            order_types=frozenset(OrderType),
            times_in_force=frozenset(TimeInForce),
            route_strategies=frozenset(RouteStrategy),
            default_time_in_force=TimeInForce.DAY,
            replace=ReplaceSupport.NATIVE_TOTAL,
            repeats_cancels=self.repeats_cancels,
            settle_seconds=SETTLE_SECONDS,
        )

    def canonical_symbol(self, text: str) -> Symbol | None:
        """As we spell it."""
        return canonical_symbol(text)

    async def open_session(self, address: str) -> object:
        """Sessions are made by the world."""
        raise NotImplementedError(address)


PROFILES: Final = {
    "A": Profile(name="A", id_seconds=float("inf"), honours_valid_until=True, is_on_time=True),
    "W": Profile(name="W", id_seconds=60.0, honours_valid_until=True),
    "B": Profile(name="B", id_seconds=-1.0, repeats_cancels=False),
    "C": Profile(name="C", id_seconds=-1.0, keeps_ids=False),
}
