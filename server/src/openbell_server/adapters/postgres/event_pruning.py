"""Removes events that were kept for long enough."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, transaction

# The account's lock is held for so many: a few milliseconds.
ROWS_MAX: Final = 500
_FIRST: Final = UUID(int=0)
_queries = named_queries.load("event_pruning")


@dataclass(slots=True)
class PruneEvents:
    """Goes round the accounts: each that has events to lose loses some of its oldest in its turn."""

    pool: Pool
    keep_seconds: float
    after: UUID = _FIRST

    async def across_organizations(self) -> int | None:
        """The next account's turn: how many events that were; None when a round is over that began with nobody."""
        began_with_nobody = self.after == _FIRST
        async with transaction(self.pool, Role.RELAY) as connection:
            pruned = await _queries.prune_events_across_organizations(
                connection, after_account_id=self.after, keep_seconds=self.keep_seconds, row_limit=ROWS_MAX
            )
        self.after = pruned["pruned_account_id"] if pruned else _FIRST
        if pruned:
            return int(pruned["pruned_rows"])
        return None if began_with_nobody else 0
