"""Event logs as the REST server serves them: their address, and a server on a loopback port."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import httpx

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.application.access.ports.access_tokens import AccessTokens
from openbell_server.devtools.child_processes import free_port
from openbell_server.domain.access.caps import caps_with
from openbell_server.http_protocol import Connections
from openbell_server.processes.http_server import serve_http
from openbell_server.processes.rest_wiring import event_streams, rest_app
from support.builders.tenant import Tenant, a_market_create, accept
from support.identity.identity_provider import Verifier
from support.rest.rest_api import CURSOR_KEY, rest_dependencies

Frame = tuple[str, str, dict[str, Any]]


def events_of(tenant: Tenant, **query: str | int) -> str:
    return f"/v1/events?{urlencode({'account_id': tenant.account.id, **query})}"


async def asked(pool: Pool, tenant: Tenant, count: int, symbol: str = "AAPL") -> None:
    """So many events: each command that is accepted is one."""
    await accept(pool, *(tenant.submission(a_market_create(symbol=symbol)) for _ in range(count)))


class Server:
    """A REST server on a loopback port; `stopping` ends it."""

    def __init__(self, pool: Pool, *, alpaca_front: bool = False, **caps: int) -> None:
        # Of the tests' identity provider, unless a test sets others.
        self.tokens: AccessTokens = Verifier().tokens
        self.alpaca_front, self.connections = alpaca_front, Connections(100, 100)
        self.pool, self.stopping, self.url = pool, asyncio.Event(), f"http://127.0.0.1:{free_port()}"
        self.caps = caps_with(caps)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[httpx.AsyncClient]:
        streams = event_streams(self.pool, None, CURSOR_KEY, self.caps)
        ready = asyncio.Event()
        front = {"alpaca_front": self.alpaca_front}
        app = rest_app(rest_dependencies(self.pool, streams=streams, caps=self.caps, tokens=self.tokens, **front))
        port = int(self.url.rsplit(":", 1)[1])
        served = asyncio.ensure_future(
            serve_http(
                app,
                "127.0.0.1",
                port,
                self.stopping,
                connections=self.connections,
                ready=ready.set,
                before_stop=streams.drain,
                has_websockets=self.alpaca_front,
            )
        )
        await asyncio.wait_for(ready.wait(), 60)
        try:
            async with httpx.AsyncClient(base_url=self.url, timeout=60) as client:
                yield client
        finally:
            self.stopping.set()
            await asyncio.wait_for(served, 60)


async def frames_of(response: httpx.Response) -> AsyncIterator[Frame]:
    """Id, name and data of every frame."""
    token = name = ""
    async for line in response.aiter_lines():
        field, _, value = line.partition(": ")
        if field == "id":
            token = value
        elif field == "event":
            name = value
        elif field == "data":
            yield token, name, json.loads(value)
            token = name = ""


def accepting(tenant: Tenant, token: str | None = None) -> dict[str, str]:
    headers = {"x-api-key": tenant.key, "accept": "text/event-stream"}
    return headers | ({"last-event-id": token} if token else {})
