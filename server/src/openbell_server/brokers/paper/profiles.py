"""Profiles of the paper broker: how it treats client ids, and what it supports."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from openbell_server.application.ports.broker import BrokerCapabilities, ReplaceSupport
from openbell_server.domain.orders.broker_guarantees import IdClass, LookUp
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderType, RouteStrategy, TimeInForce


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of broker: accounts refer to it by name, the server behaves like it, the session expects it."""

    name: str
    capabilities: BrokerCapabilities

    @property
    def has_client_ids(self) -> bool:
        """Whether orders have a client_order_id."""
        return self.capabilities.look_up is not LookUp.BROKER_ID


def _classes(create: IdClass, replacing: IdClass, cancel: IdClass) -> Mapping[ActionType, IdClass]:
    return MappingProxyType({ActionType.CREATE: create, ActionType.REPLACE: replacing, ActionType.CANCEL: cancel})


_STRICT: Final = BrokerCapabilities(
    order_types=frozenset(OrderType),
    times_in_force=frozenset(TimeInForce),
    route_strategies=frozenset(RouteStrategy),
    default_time_in_force=TimeInForce.DAY,
    replace=ReplaceSupport.NATIVE_TOTAL,
    in_flight_max=8,
    calls_at_once_max=128,
    repeats_cancels=True,
    id_classes=_classes(IdClass.ENFORCED, IdClass.ENFORCED, IdClass.ENFORCED),
    look_up=LookUp.EVERY_ORDER,
    cancels_by_client_id=True,
    enforces_valid_until=True,
    # It refuses commands after valid_until, so six seconds cover door, network and a delayed look-up.
    settle_seconds=6,
)
# Without an enforced valid_until, only a long wait proves that a command never arrived.
_LAX: Final = replace(_STRICT, cancels_by_client_id=False, enforces_valid_until=False, settle_seconds=10)

PAPER: Final = Profile("paper", _STRICT)
# An id can be reused after its order has ended, and then the order cannot be found any more.
PAPER_W: Final = Profile(
    "paper-w",
    replace(
        _STRICT, id_classes=_classes(IdClass.FOR_A_WHILE, IdClass.FOR_A_WHILE, IdClass.NONE), look_up=LookUp.OPEN_ORDERS
    ),
)
PAPER_B: Final = Profile("paper-b", replace(_LAX, id_classes=_classes(IdClass.ECHOED, IdClass.ECHOED, IdClass.NONE)))
PAPER_C: Final = Profile(
    "paper-c",
    replace(
        _LAX,
        id_classes=_classes(IdClass.NONE, IdClass.NONE, IdClass.NONE),
        look_up=LookUp.BROKER_ID,
        repeats_cancels=False,
    ),
)
PROFILES: Final = {profile.name: profile for profile in (PAPER, PAPER_W, PAPER_B, PAPER_C)}
