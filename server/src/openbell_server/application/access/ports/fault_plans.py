"""Fault plans of brokers that inject faults on request."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from openbell_server.domain.identifiers import AccountId


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """The faults that a broker injects for an account: rates and durations by name, drawn from a seed."""

    seed: int
    faults: Mapping[str, float]
    # By the broker's clock; None where no plan is set.
    set_at: datetime | None = None


class PlansUnavailable(Exception):
    """The broker did not confirm; the plan may have been set or not. Its text is shown to the caller."""


class FaultPlans(Protocol):
    """Every call to the broker raises PlansUnavailable unless the broker confirms it."""

    def is_for(self, broker: str) -> bool:
        """Whether a broker injects faults on request."""

    def judge(self, plan: FaultPlan) -> None:
        """Raises InvalidCommand for an unknown fault or a value out of bounds."""

    async def read(self, account_id: AccountId) -> FaultPlan:
        """An empty plan where none is set."""

    async def set(self, account_id: AccountId, plan: FaultPlan) -> FaultPlan: ...

    async def clear(self, account_id: AccountId) -> None: ...
