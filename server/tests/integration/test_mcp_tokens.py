"""Access tokens of a real OpenID provider, as openbell-mcp verifies them."""

from time import monotonic

import httpx
import pytest

from openbell_mcp import tokens
from openbell_mcp.tokens import IssuerKeys, Tokens
from support.identity.real_provider import AUDIENCE, provider

ALGORITHMS = ["RS256", "ES256", "EdDSA"]


async def fetch_token(http: httpx.AsyncClient, issuer: str, algorithm: str) -> str:
    given = {"grant_type": "client_credentials", "scope": "intent:read"}
    response = await http.post(f"{issuer}/token", auth=(algorithm, f"secret-of-{algorithm}"), data=given)
    return str(response.raise_for_status().json()["access_token"])


async def test_tokens_of_a_real_provider_are_accepted_for_their_own_audience_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A machine that stands still for a while must not fail a test of something else.
    monkeypatch.setattr(tokens, "FETCH_SECONDS", 60.0)
    async with provider() as port, httpx.AsyncClient(timeout=60) as http:
        issuer = f"http://127.0.0.1:{port}"
        keys = IssuerKeys(issuer, http, monotonic)
        for algorithm in ALGORITHMS:
            token = await fetch_token(http, issuer, algorithm)
            accepted = await Tokens(issuer, AUDIENCE, keys).verify_token(token)
            assert accepted is not None
            assert accepted.subject == algorithm
            assert await Tokens(issuer, "https://other.test", keys).verify_token(token) is None
            assert await Tokens(f"{issuer}/other", AUDIENCE, keys).verify_token(token) is None
