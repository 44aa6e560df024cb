"""Users of a real OpenID provider sign in to the console, call the api, and are renewed."""

import asyncio
from dataclasses import replace
from http.cookies import SimpleCookie
from urllib.parse import urljoin

import httpx
import pytest

from openbell_server.adapters.identity import jwks
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.devtools.child_processes import free_port
from openbell_server.domain.access.principals import PrincipalKind
from support.builders.tenant import Tenant
from support.console.scripted_provider import ScriptedProvider
from support.console.served_console import SECONDS, Browser, one_console, until
from support.identity.identity_provider import Clock
from support.identity.real_provider import AUDIENCE, issuer, provider, verifier
from support.rest.served_events import Server
from support.tenancy.statements import Owner


async def to_the_callback(begun: str, callback: str) -> str:
    """Follow the provider's redirects, with its cookies, until it leads back to the console."""
    address, cookies = begun, SimpleCookie()
    async with httpx.AsyncClient(timeout=SECONDS, trust_env=False) as client, asyncio.timeout(SECONDS):
        while not address.startswith(callback):
            header = "; ".join(f"{name}={morsel.value}" for name, morsel in cookies.items())
            response = await client.get(address, headers={"cookie": header})
            assert response.is_redirect, response.text
            for line in response.headers.get_list("set-cookie"):
                cookies.load(line)
            address = urljoin(address, response.headers["location"])
    return address


async def test_a_user_of_a_real_provider_signs_in_and_is_renewed(
    pool: Pool, login_url: str, owner: Owner, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwks, "FETCH_SECONDS", 60.0)
    organization = tenant.account.organization_id
    await pool.execute("update organizations set external_id = 'org_9' where organization_id = $1", organization)
    port = free_port()
    callback = f"http://127.0.0.1:{port}/console/callback"
    async with provider(redirect=callback) as at, httpx.AsyncClient(timeout=SECONDS) as client:
        trusted = replace(issuer(at, kind=PrincipalKind.USER), provider="dev")
        server = Server(pool)
        server.tokens = verifier(trusted, client, Clock())
        # Its address is all that is used of this one.
        named = ScriptedProvider("org_9", port=at)
        given = {"console_client_id": "console", "console_audience": AUDIENCE}
        async with server.serving(), one_console(login_url, named, server.url, port, **given) as console:
            browser = Browser(console.client)
            begun = await browser.get("/console/login")
            finished = await browser.get(await to_the_callback(begun.headers["location"], callback))
            assert (finished.status_code, finished.headers["location"]) == (303, "/console/"), finished.text
            me = (await browser.get("/v1/me")).json()
            assert (me["principal_id"], me["role"], me["principal_type"]) == ("ann", "member", "USER")
            assert await owner.fetchval("select refreshes from console_sessions") == 0
            await owner.execute("update console_sessions set token_expires_at = clock_timestamp()")

            async def is_renewed() -> bool:
                assert (await browser.get("/v1/me")).status_code == 200
                return bool(await owner.fetchval("select refreshes = 1 from console_sessions"))

            await until(is_renewed)
