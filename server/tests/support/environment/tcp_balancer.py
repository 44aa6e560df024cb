"""A balancer in front of replicas: each connection goes to the next one that listens."""

import asyncio
import contextlib
import itertools
from collections.abc import Sequence
from typing import Self

CONNECT_SECONDS = 60


class TcpBalancer:
    """Passes everything on, both ways."""

    def __init__(self, addresses: Sequence[str]) -> None:
        """The replicas, as host:port."""
        self._upstreams = [(host, int(port)) for host, _, port in (address.rpartition(":") for address in addresses)]
        self._turns = itertools.count()
        self._links: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """Where the replicas are found through the balancer."""
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None
        self._links.add(link)
        writers = [writer]
        try:
            from_server, to_server = await self._connect()
            writers.append(to_server)
            async with asyncio.TaskGroup() as directions:
                directions.create_task(_pass_on(reader, to_server))
                directions.create_task(_pass_on(from_server, writer))
        except (OSError, TimeoutError, asyncio.CancelledError):
            # The server of the loop would tell of it as of a fault.
            pass
        finally:
            self._links.discard(link)
            for each in writers:
                each.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        turn = next(self._turns)
        for place in range(len(self._upstreams)):
            with contextlib.suppress(OSError):
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await asyncio.open_connection(*self._upstreams[(turn + place) % len(self._upstreams)])
        raise ConnectionRefusedError("no replica listens")


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until one side ends, and then the other is told."""
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()
