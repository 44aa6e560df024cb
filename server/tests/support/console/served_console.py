"""A console as it runs, with its own login, before a REST server and a scripted provider."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
from pydantic import SecretStr

from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.devtools.child_processes import free_port
from openbell_server.http_protocol import Connections
from openbell_server.processes import console
from openbell_server.processes.http_server import serve_http
from openbell_server.processes.operations_port import Operations
from openbell_server.settings import Settings
from support.builders.tenant import Tenant
from support.console.scripted_provider import CLIENT, ScriptedProvider
from support.identity.bearers import external_id_of
from support.rest.served_events import Server

SECONDS = 60
KEY = "0123456789abcdefghijklmnopqrstuvwxyz"
SESSION = "__Host-openbell"
PENDING = "__Host-openbell-login"
# What the pages send with a change.
OWN_SITE = {"sec-fetch-site": "same-origin", "x-openbell-console": "1"}


def cookies_of(response: httpx.Response) -> dict[str, str]:
    found = [re.match(r"([^=]+)=([^;]*)", each) for each in response.headers.get_list("set-cookie")]
    return {each[1]: each[2] for each in found if each}


@dataclass(slots=True)
class Browser:
    """Keeps cookies as a browser does, which sends ours to loopback without TLS too."""

    client: httpx.AsyncClient
    cookies: dict[str, str] = field(default_factory=dict)
    # Everything that was ever sent to it.
    seen: list[httpx.Response] = field(default_factory=list)

    @property
    def cookie_header(self) -> dict[str, str]:
        return {"cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}

    async def request(
        self, method: str, path: str, headers: dict[str, str] | None = None, **more: Any
    ) -> httpx.Response:
        response = await self.client.request(method, path, headers=self.cookie_header | (headers or {}), **more)
        self.seen.append(response)
        for name, value in cookies_of(response).items():
            self.cookies[name] = value
            if not value:
                del self.cookies[name]
        return response

    async def get(self, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
        return await self.request("GET", path, headers)

    async def post(self, path: str, **more: Any) -> httpx.Response:
        return await self.request("POST", path, OWN_SITE, **more)

    async def to_the_callback(self, then: str = "/console/") -> str:
        """Begin to sign in; the address to which the provider leads back."""
        begun = await self.request("GET", "/console/login", params={"then": then})
        assert begun.status_code == 303, begun.text
        at_provider = await self.client.get(begun.headers["location"])
        return str(at_provider.headers["location"])

    async def sign_in(self, then: str = "/console/") -> httpx.Response:
        return await self.get(await self.to_the_callback(then))


@dataclass(slots=True)
class ServedConsole:
    url: str
    api_url: str
    provider: ScriptedProvider
    client: httpx.AsyncClient
    operations: Operations

    def browser(self) -> Browser:
        return Browser(self.client)

    async def signed_in(self) -> Browser:
        browser = self.browser()
        assert (await browser.sign_in()).status_code == 303
        assert SESSION in browser.cookies
        return browser


@contextlib.asynccontextmanager
async def served(application: Any, port: int) -> AsyncIterator[None]:
    stopping, ready = asyncio.Event(), asyncio.Event()
    serving = asyncio.ensure_future(
        serve_http(application, "127.0.0.1", port, stopping, connections=Connections(100, 100), ready=ready.set)
    )
    await asyncio.wait_for(ready.wait(), SECONDS)
    try:
        yield
    finally:
        stopping.set()
        await asyncio.wait_for(serving, SECONDS)


@contextlib.asynccontextmanager
async def one_console(
    login_url: str, provider: ScriptedProvider, api_url: str, port: int = 0, **settings_given: Any
) -> AsyncIterator[ServedConsole]:
    """A process of the console; the database is for its login."""
    port, ready, stopping = port or free_port(), asyncio.Event(), asyncio.Event()
    url = f"http://127.0.0.1:{port}"
    usual: dict[str, Any] = {
        "database_url": SecretStr(login_url),
        "console_url": url,
        "console_port": port,
        "console_api_url": api_url,
        "console_issuer": provider.issuer,
        "console_client_id": CLIENT,
        "console_key": SecretStr(KEY),
    }
    settings = Settings(**usual | settings_given)
    operations = Operations("console", notify_ready=ready.set)
    serving = asyncio.ensure_future(console.serve(settings, stopping, operations, JetStreamConnection("")))
    waiting = asyncio.ensure_future(ready.wait())
    await asyncio.wait({serving, waiting}, timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        await serving
    assert ready.is_set(), "the console does not start"
    try:
        async with httpx.AsyncClient(base_url=url, timeout=SECONDS, trust_env=False) as client:
            yield ServedConsole(url, api_url, provider, client, operations)
    finally:
        stopping.set()
        await asyncio.wait_for(serving, SECONDS)


@contextlib.asynccontextmanager
async def served_console(pool: Pool, login_url: str, tenant: Tenant) -> AsyncIterator[ServedConsole]:
    provider = ScriptedProvider(external_id_of(tenant.account.organization_id))
    server = Server(pool)
    async with (
        server.serving(),
        served(provider, provider.port),
        one_console(login_url, provider, server.url) as running,
    ):
        yield running


async def until(holds: Callable[[], Any]) -> None:
    """Poll an awaitable condition for at most a minute."""
    async with asyncio.timeout(SECONDS):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.05)
