"""Halt the scopes of missed heartbeats. Every api and every executor does this, so no single one is needed for it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from openbell_server.application.controls.ports.heartbeats import MissedHeartbeatStore
from openbell_server.application.ports.hints import Hints
from openbell_server.domain.controls.rules import Address
from openbell_server.domain.identifiers import OrganizationId

# Organizations whose scopes are halted at the same time.
ORGANIZATIONS_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class ExpireHeartbeats:
    store: MissedHeartbeatStore
    hints: Hints

    async def sweep(self) -> None:
        """Halt a limited number of them. If one fails, its organization waits for the next sweep."""
        by_organization: dict[OrganizationId, list[Address]] = {}
        for address in await self.store.missed_across_organizations():
            by_organization.setdefault(address.organization_id, []).append(address)
        places = asyncio.Semaphore(ORGANIZATIONS_AT_ONCE)
        ended = await asyncio.gather(
            *(self._expire(places, addresses) for addresses in by_organization.values()), return_exceptions=True
        )
        for error in ended:
            if error is not None:
                raise error

    async def _expire(self, places: asyncio.Semaphore, addresses: Sequence[Address]) -> None:
        """Of one organization, one after the other, because each takes the same locks."""
        async with places:
            for address in addresses:
                if await self.store.expire(address) and address.account_id is not None:
                    self.hints.events_were_written([address.account_id])
