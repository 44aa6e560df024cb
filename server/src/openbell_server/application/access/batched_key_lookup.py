"""Reads API keys that are looked up at the same time with one query: every open stream rechecks its key often."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from openbell_server.domain.access.api_keys import ApiKey


class BatchedKeyLookup:
    """Implements KeyStore; find_keys returns the keys that exist, by public id."""

    def __init__(self, find_keys: Callable[[Sequence[str]], Awaitable[Mapping[str, ApiKey]]]) -> None:
        self._find_keys = find_keys
        self._asked: set[str] = set()
        self._reading: asyncio.Future[Mapping[str, ApiKey]] | None = None

    async def find_key_across_organizations(self, key_id: str) -> ApiKey | None:
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._read())
        self._asked.add(key_id)
        # Shielded: if one caller is cancelled, the others still get the result.
        return (await asyncio.shield(self._reading)).get(key_id)

    async def _read(self) -> Mapping[str, ApiKey]:
        # This task starts in the next turn of the event loop, so the batch holds every look-up of this turn.
        asked, self._asked, self._reading = self._asked, set(), None
        return await self._find_keys(sorted(asked))
