"""Targets on this machine that answer as they are told, and keep what they were sent."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.application.webhooks.ports.posting import Answer, NotDelivered
from support.builders.tenant import Tenant, new_id

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
# Whatever else a target does with a connection, having read a request from it.
Behave = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came over the wire."""

    head: str
    body: bytes

    @property
    def headers(self) -> dict[str, str]:
        return dict(line.split(": ", 1) for line in self.head.lower().splitlines()[1:] if line)


@dataclass
class Target:
    """A listener; it counts who connects."""

    answer: bytes | Behave = OK
    port: int = 0
    connections: int = 0
    requests: list[Request] = field(default_factory=list)
    open: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.ensure_future(self._serve(reader, writer))
        self.open[task] = writer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                request = Request(head, b"")
                body = await reader.readexactly(int(request.headers.get("content-length", "0")))
                self.requests.append(Request(head, body))
                if isinstance(self.answer, bytes):
                    writer.write(self.answer)
                    await writer.drain()
                else:
                    await self.answer(writer)
                    break
        writer.close()

    async def close(self) -> None:
        for task, writer in self.open.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*self.open, return_exceptions=True)


async def a_webhook(pool: Pool, tenant: Tenant, url: str, kinds: str = "{1,2,3}") -> UUID:
    """Stored without asking: its lanes begin with the first event, as those of accounts that are opened later."""
    webhook_id = new_id()
    await pool.execute(
        "insert into webhooks (organization_id, webhook_id, url, kinds, created_at, updated_at, principal_type,"
        f" principal_id) values ($1, $2, $3, '{kinds}', now(), now(), 'USER', 'somebody')",
        tenant.account.organization_id,
        webhook_id,
        url,
    )
    return webhook_id


@dataclass
class RememberedPosts:
    """Implements Poster: keeps what it is given, and answers what it is told."""

    answer: Answer | NotDelivered = field(default_factory=lambda: Answer(200))
    posts: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        self.posts.append((url, dict(headers), body))
        if isinstance(self.answer, NotDelivered):
            raise self.answer
        return self.answer


@contextlib.asynccontextmanager
async def a_target(answer: bytes | Behave = OK, tls: ssl.SSLContext | None = None) -> AsyncIterator[Target]:
    target = Target(answer)
    server = await asyncio.start_server(target.accept, "127.0.0.1", 0, ssl=tls)
    target.port = server.sockets[0].getsockname()[1]
    try:
        yield target
    finally:
        server.close()
        await target.close()


def answering(*answers: Sequence[str]) -> Callable[[str, int], Awaitable[Sequence[str]]]:
    """A name server that tells one answer after the other, the last one for ever."""
    left = list(answers)

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return left.pop(0) if len(left) > 1 else left[0]

    return resolve
