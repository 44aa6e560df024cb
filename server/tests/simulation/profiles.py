"""Four kinds of brokers, by what they do with the ids that we give our commands."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from openbell_server.application.ports.broker import (
    BrokerCapabilities,
    BrokerSession,
    CredentialForm,
    ReplaceSupport,
)
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.identifiers import Symbol, canonical_symbol
from openbell_server.domain.orders.broker_guarantees import IdClass, LookUp
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderType, RouteStrategy, TimeInForce

# After door, way, and whatever a broker may dawdle, nothing can arrive any more, nor stay hidden.
LATE_SECONDS_MAX: Final = 4.0
LAG_SECONDS_MAX: Final = 2.0
SETTLE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One kind of broker; implements BrokerDefinition."""

    id_class: IdClass
    # How long a repeated id is refused.
    id_seconds: float = -1.0
    enforces_valid_until: bool = False
    # Whether it is never later than it is said to be.
    is_on_time: bool = False
    repeats_cancels: bool = True
    look_up: LookUp = LookUp.EVERY_ORDER
    late_max: float = LATE_SECONDS_MAX
    lag_max: float = LAG_SECONDS_MAX
    credentials: CredentialForm | None = None

    @property
    def name(self) -> str:
        """As accounts name it."""
        return self.id_class.value

    @property
    def keeps_ids(self) -> bool:
        """Whether it tells our ids back."""
        return self.id_class is not IdClass.NONE

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
            id_classes={ActionType.CREATE: self.id_class},
            look_up=self.look_up,
            cancels_by_client_id=self.keeps_ids,
            enforces_valid_until=self.enforces_valid_until,
            settle_seconds=SETTLE_SECONDS,
        )

    def canonical_symbol(self, text: str) -> Symbol | None:
        """As we spell it."""
        return canonical_symbol(text)

    @property
    def addresses(self) -> Mapping[Environment, str]:
        """It is nowhere."""
        return {}

    async def open_session(self, addresses: Mapping[Environment, str]) -> BrokerSession:
        """Sessions are made by the world."""
        raise NotImplementedError(addresses)


PROFILES: Final = {
    "A": Profile(id_class=IdClass.ENFORCED, id_seconds=float("inf"), enforces_valid_until=True, is_on_time=True),
    "W": Profile(id_class=IdClass.FOR_A_WHILE, id_seconds=60.0, enforces_valid_until=True),
    "B": Profile(id_class=IdClass.ECHOED, repeats_cancels=False),
    "C": Profile(id_class=IdClass.NONE, look_up=LookUp.BROKER_ID),
}
