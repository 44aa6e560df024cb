"""Promised heartbeats in the database; the database's clock decides what is late."""

from typing import Protocol

from openbell_server.application.controls.ports.rules import RuleFilter
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.controls.heartbeats import Heartbeat, HeartbeatTerms
from openbell_server.domain.controls.rules import Address


class HeartbeatStore(Protocol):
    async def beat(self, address: Address, terms: HeartbeatTerms, principal: Principal) -> Heartbeat:
        """Arm the promise, or renew it with these terms.

        Raises heartbeat_missed if it was missed and its scope is halted; once the scope is not HALTED any more, the
        promise is armed again. Raises permission_denied if the change loosens a promise that somebody else requires
        and the principal may not.
        """

    async def disarm(self, address: Address, principal: Principal) -> bool:
        """Remove the promise; False if there is none. Raises as `beat` does."""

    async def list_heartbeats(self, wanted: RuleFilter, after: int, limit: int) -> list[tuple[int, Heartbeat]]:
        """Promises with their numbers, in the order in which they were first armed, beginning after a number."""


class MissedHeartbeatStore(Protocol):
    async def missed_across_organizations(self) -> list[Address]:
        """Promises that were missed and whose scope is not halted yet; a limited number."""

    async def expire(self, address: Address) -> bool:
        """Halt the scope of a missed heartbeat. False if it was renewed meanwhile, or if another process does this."""
