"""A proxy in front of a server of HTTP that cuts connections at random, at three points of a request."""

import asyncio
from collections import Counter
from random import Random

from support.environment.stream_cutter import StreamCutter

# Of all connections, and of all pieces of a response, for each of the three kinds.
SHARE = 0.15


class RequestCutter(StreamCutter):
    """Cuts before the request, after the request and before the response, and within the response."""

    def __init__(self, address: str, chance: Random) -> None:
        super().__init__(address, 0)
        self._chance = chance
        self.kinds: Counter[str] = Counter()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._chance.random() < SHARE:
            self.kinds["before the request"] += 1
            writer.close()
        else:
            await super()._serve(reader, writer)

    async def _until_cut(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            fate = self._chance.random()
            if fate < SHARE:
                self.kinds["before the response"] += 1
                return
            if fate < 2 * SHARE:
                self.kinds["within the response"] += 1
                writer.write(data[: self._chance.randrange(1, len(data))])
                await writer.drain()
                return
            writer.write(data)
            await writer.drain()
