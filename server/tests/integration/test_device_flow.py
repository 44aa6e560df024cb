"""`openbell login` against a real OpenID provider: codes that are confirmed, denied, expired and polled too often."""

import asyncio
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from openbell.cli import device_flow
from openbell.cli.device_flow import Code, Provider, Tokens
from openbell.cli.outcomes import SignInFailed
from openbell_server.domain.access.principals import PrincipalKind
from support.identity.identity_provider import Clock
from support.identity.real_provider import AUDIENCE, issuer, provider, verifier

SECONDS = 60


class SignIn:
    """A sign-in that waits in a thread, for a test that decides its code."""

    def __init__(self, port: int, client: httpx.AsyncClient) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self._client, self._codes = client, asyncio.Queue[Code]()
        self._loop = asyncio.get_running_loop()

    async def decide(self, verdict: str) -> Tokens:
        waiting = asyncio.create_task(asyncio.to_thread(self._run))
        async with asyncio.timeout(SECONDS):
            code = await self._codes.get()
            await self.control(f"decide/{code.user_code}/{verdict}")
            return await waiting

    async def control(self, what: str) -> None:
        (await self._client.post(f"{self.address}/test/{what}")).raise_for_status()

    def _run(self) -> Tokens:
        def show(code: Code) -> None:
            assert code.address.startswith(f"{self.address}/device?user_code=")
            self._loop.call_soon_threadsafe(self._codes.put_nowait, code)

        return Provider(self.address, "cli", AUDIENCE).sign_in(None, show)


@pytest.fixture
async def sign_in(monkeypatch: pytest.MonkeyPatch, slept: list[float]) -> AsyncIterator[SignIn]:
    monkeypatch.setattr(device_flow, "REQUEST_SECONDS", float(SECONDS))
    async with provider() as port, httpx.AsyncClient(timeout=SECONDS) as client:
        yield SignIn(port, client)


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What a poll would have waited; it waits a little, so that the code is decided between two of them."""
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        time.sleep(0.05)

    monkeypatch.setattr(device_flow, "sleep", sleep)
    return pauses


async def test_a_confirmed_code_becomes_a_user_s_token_that_can_be_refreshed(sign_in: SignIn) -> None:
    port = int(sign_in.address.rpartition(":")[2])
    tokens = await sign_in.decide("approve")
    assert tokens.refresh_token is not None
    renewed = await asyncio.to_thread(Provider(sign_in.address, "cli", AUDIENCE).refresh, tokens.refresh_token)
    assert renewed.access_token != tokens.access_token
    async with httpx.AsyncClient(timeout=SECONDS) as client:
        platform = verifier(issuer(port, kind=PrincipalKind.USER), client, Clock())
        for token in (tokens.access_token, renewed.access_token):
            claims = await platform.verify(token)
            assert claims is not None
            assert (claims.subject, claims.organization) == ("ann", "org_9")


@pytest.mark.parametrize(
    ("verdict", "message"), [("access_denied", "denied at the provider"), ("expired_token", "expired before")]
)
async def test_a_code_that_is_denied_or_expired_ends_the_sign_in(sign_in: SignIn, verdict: str, message: str) -> None:
    with pytest.raises(SignInFailed, match=message):
        await sign_in.decide(verdict)


async def test_a_provider_that_asks_for_fewer_polls_gets_them(sign_in: SignIn, slept: list[float]) -> None:
    await sign_in.control("slow/2")
    await sign_in.decide("approve")
    assert slept[:3] == [5, 10, 15]


async def test_a_client_or_a_refresh_token_that_the_provider_does_not_know_is_reported(sign_in: SignIn) -> None:
    stranger = await asyncio.to_thread(Provider, sign_in.address, "stranger")
    with pytest.raises(SignInFailed, match="invalid_client"):
        await asyncio.to_thread(stranger.sign_in, None, print)
    known = await asyncio.to_thread(Provider, sign_in.address, "cli")
    with pytest.raises(SignInFailed, match="invalid_grant"):
        await asyncio.to_thread(known.refresh, "guessed")
