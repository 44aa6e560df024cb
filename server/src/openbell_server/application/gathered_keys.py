"""Keys that are asked for at the same time, read at once: who follows is looked at again and again."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from openbell_server.domain.api_keys import ApiKey


class GatheredKeys:
    """Implements KeyStore."""

    def __init__(self, find_keys: Callable[[Sequence[str]], Awaitable[Mapping[str, ApiKey]]]) -> None:
        """Find gives those that there are, by their public ids."""
        self._find_keys = find_keys
        self._asked: set[str] = set()
        self._reading: asyncio.Future[Mapping[str, ApiKey]] | None = None

    async def find_key_across_organizations(self, key_id: str) -> ApiKey | None:
        """The key with this public id."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._read())
        self._asked.add(key_id)
        # One who leaves must not take the answer from the others.
        return (await asyncio.shield(self._reading)).get(key_id)

    async def _read(self) -> Mapping[str, ApiKey]:
        """Begins in the next turn of the loop: whoever asked until then is answered by it."""
        asked, self._asked, self._reading = self._asked, set(), None
        return await self._find_keys(sorted(asked))
