"""Access tokens: which are believed, and how often the OpenID provider is called."""

import time
from typing import Any

import jwt
import pytest
from agent_issuer import AUDIENCE, AgentIssuer

from openbell_mcp.tokens import FRESH_SECONDS, REFRESH_SECONDS, STALE_SECONDS, IssuerKeys, Tokens, Unavailable


class Clock:
    """A monotonic clock that a test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def tokens(issuer: AgentIssuer, clock: Clock | None = None) -> Tokens:
    return Tokens(issuer.name, AUDIENCE, IssuerKeys(issuer.name, issuer.client(), clock or Clock()))


async def test_a_valid_token_shows_its_subject_and_is_not_kept() -> None:
    issuer = AgentIssuer()
    token = issuer.token("ann")
    found = await tokens(issuer).verify_token(token)
    assert found is not None
    assert (found.subject, found.token) == ("ann", "")
    assert token not in repr(found)


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "https://other.example.com/mcp"},
        {"aud": []},
        {"aud": None},
        {"iss": "https://other.example.com"},
        {"iss": None},
        {"exp": 1},
        {"exp": None},
        {"exp": "never"},
        {"nbf": 4_102_444_800},
        {"sub": None},
        {"sub": ""},
        {"sub": "x" * 256},
        {"sub": "ann\nbob"},
        {"extra": "x" * 8192},
    ],
    ids=lambda claims: str(claims)[:40],
)
async def test_a_token_with_a_wrong_claim_is_refused(claims: dict[str, Any]) -> None:
    issuer = AgentIssuer()
    assert await tokens(issuer).verify_token(issuer.token(**claims)) is None


async def test_a_token_that_the_issuer_did_not_sign_is_refused() -> None:
    issuer, stranger = AgentIssuer(), AgentIssuer()
    verifier = tokens(issuer)
    good = {"iss": issuer.name, "aud": AUDIENCE, "sub": "ann", "exp": int(time.time()) + 600}
    public = jwt.PyJWK(issuer.documents["/keys"]["keys"][0]).key
    assert public is not None
    for bad in (
        stranger.token(),
        jwt.encode(good, "", "none", headers={"kid": "one"}),
        jwt.encode(good, "x" * 32, "HS256", headers={"kid": "one"}),
        issuer.token(header={"kid": "another"}),
        jwt.encode(good, issuer.key, "ES256"),
        issuer.token()[:-4] + "AAAA",
        "",
        "..",
        "not a token",
        "ä.b.c",
        "W1" * 3000 + ".e30.AA",
    ):
        assert await verifier.verify_token(bad) is None
    assert await verifier.verify_token(issuer.token()) is not None


async def test_tokens_with_unknown_keys_do_not_call_the_provider_each_time() -> None:
    issuer, clock = AgentIssuer(), Clock()
    verifier = tokens(issuer, clock)
    for _ in range(20):
        assert await verifier.verify_token(issuer.token(header={"kid": "another"})) is None
    assert issuer.fetches == 2
    clock.now += REFRESH_SECONDS
    issuer.key_id = "another"
    assert await verifier.verify_token(issuer.token()) is not None
    assert issuer.fetches == 4


async def test_the_keys_of_a_provider_that_is_down_are_used_for_an_hour() -> None:
    issuer, clock = AgentIssuer(), Clock()
    verifier = tokens(issuer, clock)
    assert await verifier.verify_token(issuer.token()) is not None
    issuer.is_down = True
    clock.now += FRESH_SECONDS
    assert await verifier.verify_token(issuer.token()) is not None
    clock.now += STALE_SECONDS
    with pytest.raises(Unavailable):
        await verifier.verify_token(issuer.token())


async def test_a_provider_that_names_another_issuer_is_not_believed() -> None:
    issuer = AgentIssuer()
    verifier = Tokens(
        "https://mine.example.com", AUDIENCE, IssuerKeys("https://mine.example.com", issuer.client(), Clock())
    )
    with pytest.raises(Unavailable):
        await verifier.verify_token(issuer.token(iss="https://mine.example.com"))
