"""Trading accounts and the organizations that own them, as far as a command needs to know them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from openbell_server.domain.identifiers import AccountId, OrganizationId

TRADING_LIVE: Final = "trading_live"
CONTROLS_PREMIUM: Final = "controls_premium"
ENTITLEMENTS: Final = frozenset({TRADING_LIVE, CONTROLS_PREMIUM})


class Environment(StrEnum):
    """Where an account trades; fixed for life."""

    PAPER = "paper"
    LIVE = "live"


@dataclass(frozen=True, slots=True, kw_only=True)
class TradingAccount:
    """An account with what its organization allows and the epochs of the controls that apply to it."""

    id: AccountId
    organization_id: OrganizationId
    name: str
    broker: str
    environment: Environment
    slot: int
    disabled: bool
    organization_disabled: bool
    entitlements: frozenset[str]
    organization_epoch: int
    account_epoch: int
