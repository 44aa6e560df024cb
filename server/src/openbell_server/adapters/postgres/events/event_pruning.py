"""Deletes events that are older than the retention time."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, transaction

# One batch holds the account's lock for a few milliseconds.
ROWS_MAX: Final = 500
_FIRST: Final = UUID(int=0)
_queries = named_queries.load("event_pruning")


@dataclass(slots=True)
class PruneEvents:
    """Visits the accounts with expired events in order of their ids, and deletes one batch of the oldest from each."""

    pool: Pool
    keep_seconds: float
    after: UUID = _FIRST

    async def across_organizations(self) -> int | None:
        """Prune the next account. Returns the number of events, 0 at the end of a round, None after an empty round."""
        is_first = self.after == _FIRST
        async with transaction(self.pool, Role.RELAY) as connection:
            pruned = await _queries.prune_events_across_organizations(
                connection, after_account_id=self.after, keep_seconds=self.keep_seconds, row_limit=ROWS_MAX
            )
        self.after = pruned["pruned_account_id"] if pruned else _FIRST
        if pruned:
            return int(pruned["pruned_rows"])
        return None if is_first else 0
