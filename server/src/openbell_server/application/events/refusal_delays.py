"""Delay the refusals of streams, so that clients of one organization that try again at once do so slowly."""

import asyncio
from typing import Final

from openbell_server.domain.identifiers import OrganizationId

# One organization gets this many refusals a second; further ones wait, for at most DELAY_SECONDS_MAX.
REFUSALS_PER_SECOND: Final = 20
DELAY_SECONDS_MAX: Final = 8.0
# Multiples of it are spread evenly over 0 to 1.
GOLDEN_PART: Final = 0.618034
# Organizations that are remembered.
ORGANIZATIONS_MAX: Final = 2000


class RefusalDelays:
    """One per process."""

    def __init__(self) -> None:
        # When an organization may get its next refusal.
        self._next_at: dict[OrganizationId, float] = {}
        self._part = 0.0

    def next_seconds(self, organization_id: OrganizationId) -> float:
        """How long the next refusal of the organization must wait."""
        now = asyncio.get_running_loop().time()
        if len(self._next_at) >= ORGANIZATIONS_MAX:
            self._next_at = {each: at for each, at in self._next_at.items() if at > now}
        wait = max(self._next_at.get(organization_id, now) - now, 0.0)
        if wait > DELAY_SECONDS_MAX:
            # Spread evenly, so that a crowd that came at once does not come back at once.
            self._part = (self._part + GOLDEN_PART) % 1
            return DELAY_SECONDS_MAX * (1 + 3 * self._part) / 4
        self._next_at[organization_id] = now + wait + 1 / REFUSALS_PER_SECOND
        return wait
