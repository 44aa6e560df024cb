"""What asking a broker to misbehave needs from one that does so on request."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from openbell_server.domain.identifiers import AccountId


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """How a broker shall misbehave towards an account: rates and times by name; the chances follow from a seed."""

    seed: int
    faults: Mapping[str, float]
    # By the broker's clock; None where the account asked for nothing.
    set_at: datetime | None = None


class PlansUnavailable(Exception):
    """The broker did not answer as it should."""


class FaultPlans(Protocol):
    """The plans of accounts at brokers that misbehave on request; each call raises PlansUnavailable when in doubt."""

    def is_for(self, broker: str) -> bool:
        """Whether a broker misbehaves on request."""

    def judge(self, plan: FaultPlan) -> None:
        """Raise InvalidCommand for a plan that cannot be meant."""

    async def read(self, account_id: AccountId) -> FaultPlan:
        """The plan of an account; without one it is empty."""

    async def set(self, account_id: AccountId, plan: FaultPlan) -> FaultPlan:
        """Have a plan hold from now on."""

    async def clear(self, account_id: AccountId) -> None:
        """Have the account's plan hold no more."""
