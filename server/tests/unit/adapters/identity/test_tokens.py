"""Access tokens: the good ones say who calls, every bad one is refused alike, and a verdict is remembered briefly."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from openbell_server.adapters.identity import tokens as tokens_module
from openbell_server.application.access.ports.access_tokens import AccessTokens
from openbell_server.domain.access.access_tokens import Issuer, TokenClaims
from openbell_server.domain.access.principals import PrincipalKind, Role
from openbell_server.domain.errors import OperatorError
from support.identity.bad_tokens import BAD_TOKENS, BadToken
from support.identity.identity_provider import (
    MACHINES,
    NOW,
    PEOPLE,
    Verifier,
    compact,
    good_token,
    jwk,
    private_key,
    text,
)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
@pytest.mark.parametrize("issuer", [PEOPLE, MACHINES], ids=["user", "service"])
async def test_a_good_token_says_who_calls(algorithm: str, issuer: Issuer) -> None:
    tokens: AccessTokens = Verifier().tokens
    assert await tokens.verify(good_token(algorithm, issuer)) == TokenClaims(
        issuer=issuer.name,
        provider="dev",
        subject="auth|7",
        kind=PrincipalKind.USER if issuer is PEOPLE else PrincipalKind.SERVICE,
        organization="org_9",
        role=Role.MEMBER,
        permissions=frozenset({"intent:edit"}),
        scopes=frozenset({"openid", "intent:read"}),
        expires_at=datetime.fromtimestamp(NOW + 600, UTC),
    )


def test_the_corpus_of_bad_tokens_is_large() -> None:
    assert len(BAD_TOKENS) >= 60


@pytest.mark.parametrize("bad", BAD_TOKENS, ids=lambda bad: bad.name)
async def test_a_bad_token_is_refused_for_its_own_reason(bad: BadToken) -> None:
    token = bad.make()
    verifier = Verifier()
    with capture_logs() as logs:
        assert await verifier.tokens.verify(token) is None
    assert [(line["event"], line["reason"]) for line in logs] == [("token_refused", bad.reason)]
    # The line holds our own words only.
    assert set(logs[0]) == {"event", "log_level", "reason", "issuer"}
    assert logs[0]["issuer"] in {None, PEOPLE.name, MACHINES.name}


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_a_token_with_any_sign_changed_is_refused(algorithm: str) -> None:
    token, tokens = good_token(algorithm), Verifier().tokens
    for place, sign in enumerate(token):
        changed = token[:place] + ("B" if sign == "A" else "A") + token[place + 1 :]
        assert await tokens.verify(changed) is None, place
    assert await tokens.verify(token) is not None


@settings(max_examples=200, deadline=None)
@given(token=st.text() | st.from_regex(r"[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*", fullmatch=True))
async def test_any_text_is_refused_without_asking_a_provider(token: str) -> None:
    verifier = Verifier()
    assert await verifier.tokens.verify(token) is None
    assert verifier.asked == {}


async def test_a_token_of_an_algorithm_that_its_issuer_does_not_use_is_refused() -> None:
    narrow = Issuer(
        name=PEOPLE.name,
        jwks_address=PEOPLE.jwks_address,
        audience=PEOPLE.audience,
        token_type=PEOPLE.token_type,
        kind=PEOPLE.kind,
        algorithms=frozenset({"ES256"}),
    )
    tokens = Verifier(issuers=(narrow,)).tokens
    assert await tokens.verify(good_token("ES256")) is not None
    assert await tokens.verify(good_token("RS256")) is None


async def test_a_token_whose_key_was_withdrawn_is_refused_once_its_verdict_is_forgotten() -> None:
    verifier = Verifier()
    assert await verifier.tokens.verify(good_token("RS256")) is not None
    verifier.published["people"] = text({"keys": [jwk(private_key("ES256"), "ES256")]})
    assert await verifier.tokens.verify(good_token("RS256", sub="new")) is not None, (
        "the keys are fresh for ten minutes"
    )
    verifier.clock.seconds += 600
    token = good_token("RS256", exp=verifier.clock.seconds + 60, iat=verifier.clock.seconds)
    assert await verifier.tokens.verify(token) is None
    current = good_token("ES256", exp=verifier.clock.seconds + 60, iat=verifier.clock.seconds)
    assert await verifier.tokens.verify(current) is not None


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tokens whose signature was checked."""
    seen: list[str] = []
    check = tokens_module._JWS.decode_complete

    def spy(token: str, *rest: object, **named: object) -> object:
        seen.append(token)
        return check(token, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(tokens_module._JWS, "decode_complete", spy)
    return seen


async def test_a_verdict_is_remembered_for_a_minute(checked: list[str]) -> None:
    verifier, token = Verifier(), good_token()
    first = await verifier.tokens.verify(token)
    verifier.clock.seconds += 59.9
    assert await verifier.tokens.verify(token) == first
    assert checked == [token]
    verifier.clock.seconds += 0.1
    assert await verifier.tokens.verify(token) == first
    assert checked == [token, token]


async def test_a_remembered_verdict_ends_with_its_token(checked: list[str]) -> None:
    verifier, token = Verifier(), good_token(exp=NOW + 10)
    assert await verifier.tokens.verify(token) is not None
    verifier.clock.seconds += 10
    assert await verifier.tokens.verify(token) is not None, "thirty seconds of leeway"
    assert checked == [token, token]
    verifier.clock.seconds += 30
    assert await verifier.tokens.verify(token) is None


async def test_a_refusal_is_not_remembered() -> None:
    verifier, token = Verifier(), good_token(nbf=NOW + 31)
    assert await verifier.tokens.verify(token) is None
    verifier.clock.seconds += 1
    assert await verifier.tokens.verify(token) is not None


async def test_only_so_many_verdicts_are_remembered_and_the_oldest_goes_first(
    checked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens_module, "CACHE_TOKENS_MAX", 2)
    tokens = Verifier().tokens
    a, b, c = (good_token("EdDSA", sub=name) for name in "abc")
    for token in (a, b, c, b, c, a):
        assert await tokens.verify(token) is not None
    assert checked == [a, b, c, a]
    assert len(tokens._verified) == 2


async def test_no_token_is_kept_in_memory() -> None:
    tokens, token = Verifier().tokens, good_token()
    await tokens.verify(token)
    assert len(tokens._verified) == 1
    assert token not in repr(tokens._verified)
    assert token.split(".")[2] not in repr(tokens._verified)


def test_an_issuer_is_named_once() -> None:
    with pytest.raises(OperatorError, match="named twice"):
        Verifier(issuers=(PEOPLE, PEOPLE))


async def test_a_session_token_as_workos_makes_it_is_believed_once_its_template_names_us() -> None:
    issuer = replace(PEOPLE, name="https://api.workos.com/user_management/client_1", provider="workos", token_type=None)
    claims = {
        "iss": issuer.name,
        "sub": "user_01HBEQKA6K4QJAS93VPE39W1JT",
        "org_id": "org_01HRDMC6CM357W30QMHMQ96Q0S",
        "role": "member",
        "roles": ["member"],
        "permissions": ["posts:read"],
        "entitlements": ["audit-logs"],
        "sid": "session_01HQSXZGF8FHF7A9ZZFCW4387R",
        "jti": "01HQSXZXPPFPKMDD32RKTFY6PV",
        "exp": NOW + 300,
        "iat": NOW,
    }
    tokens = Verifier(issuers=(issuer,)).tokens
    header = text({"alg": "RS256", "kid": "RS256"})
    assert await tokens.verify(compact(header, text(claims), private_key("RS256"))) is None
    said = await tokens.verify(compact(header, text(claims | {"aud": issuer.audience}), private_key("RS256")))
    assert said is not None
    assert (said.provider, said.subject, said.organization) == ("workos", claims["sub"], claims["org_id"])
