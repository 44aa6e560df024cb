"""What a payload says about its caller, at the very edges of the rules; the table of issuers refuses unsafe rows."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from openbell_server.domain.access.access_tokens import (
    ClaimNames,
    Issuer,
    TokenClaims,
    TokenRefused,
    read_claims,
    read_header,
)
from openbell_server.domain.access.principals import PrincipalKind, Role
from openbell_server.domain.errors import OperatorError
from support.identity.identity_provider import MACHINES, NOW, PEOPLE, good_header, good_payload


def said(issuer: Issuer = PEOPLE, **claims: Any) -> TokenClaims:
    return read_claims(issuer, good_payload(issuer) | claims, datetime.fromtimestamp(NOW, UTC))


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW - 29, "iat": NOW - 600},
        {"iat": NOW + 30, "exp": NOW + 40},
        {"nbf": NOW + 30},
        {"iat": NOW, "exp": NOW + 3600},
        {"exp": NOW + 0.5},
        {"sub": "s" * 255},
        {"aud": ["other", PEOPLE.audience]},
    ],
    ids=str,
)
def test_what_is_just_within_the_rules_is_believed(claims: dict[str, Any]) -> None:
    assert said(**claims).organization == "org_9"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": NOW - 30, "iat": NOW - 600}, "expired"),
        ({"iat": NOW + 30.5, "exp": NOW + 40}, "issued_in_the_future"),
        ({"nbf": NOW + 30.5}, "not_yet_valid"),
        ({"iat": NOW, "exp": NOW + 3600.5}, "bad_lifetime"),
        ({"sub": "s" * 256}, "bad_subject"),
    ],
    ids=str,
)
def test_what_is_just_outside_is_refused(claims: dict[str, Any], reason: str) -> None:
    with pytest.raises(TokenRefused) as refused:
        said(**claims)
    assert refused.value.reason == reason


@pytest.mark.parametrize(("text", "role"), [("admin", Role.ADMIN), ("read_only", Role.READ_ONLY), (None, None)])
def test_a_role_is_one_of_ours_or_none(text: str | None, role: Role | None) -> None:
    assert said(role=text).role is role


def test_a_token_may_leave_out_what_it_need_not_say() -> None:
    payload = good_payload()
    for claim in ("nbf", "role", "permissions", "scope"):
        del payload[claim]
    claims = read_claims(PEOPLE, payload, datetime.fromtimestamp(NOW, UTC))
    assert (claims.role, claims.permissions, claims.scopes) == (None, frozenset(), frozenset())


def test_an_empty_scope_is_none() -> None:
    assert said(scope="").scopes == frozenset()


def test_an_issuer_may_write_under_names_of_its_own() -> None:
    names = ClaimNames(
        subject="uid", organization="https://x/tenant", role="https://x/role", permissions="grants", scope="scp"
    )
    claims = said(
        replace(PEOPLE, claim_names=names),
        **{"uid": "u", "https://x/tenant": "t", "https://x/role": "admin", "grants": ["g"], "scp": "s"},
    )
    assert (claims.subject, claims.organization, claims.role) == ("u", "t", Role.ADMIN)
    assert (claims.permissions, claims.scopes) == (frozenset({"g"}), frozenset({"s"}))


def test_an_issuer_may_allow_shorter_lives_only() -> None:
    with pytest.raises(TokenRefused, match="bad_lifetime"):
        said(replace(PEOPLE, lifetime_seconds=659))
    assert said(replace(PEOPLE, lifetime_seconds=660)).subject == "auth|7"


def test_a_payload_of_one_issuer_is_not_believed_of_another() -> None:
    with pytest.raises(TokenRefused, match="wrong_issuer"):
        read_claims(PEOPLE, good_payload(MACHINES), datetime.fromtimestamp(NOW, UTC))


@pytest.mark.parametrize("spelling", ["at+jwt", "AT+JWT", "application/at+jwt", "Application/At+Jwt"])
def test_a_type_is_a_media_type(spelling: str) -> None:
    assert read_header(PEOPLE, good_header() | {"typ": spelling}) == ("RS256", "RS256")


@pytest.mark.parametrize(
    "change",
    [
        {"jwks_address": "http://people.test/keys"},
        {"jwks_address": "ftp://127.0.0.1/keys"},
        {"jwks_address": "http://127.0.0.1.evil.test/keys"},
        {"jwks_address": "file:///etc/keys"},
        {"jwks_address": "https:///keys"},
        {"jwks_address": ""},
        # One at a time: a set of two has no name that every test worker gives it.
        {"algorithms": frozenset({"HS256"})},
        {"algorithms": frozenset({"none"})},
        {"algorithms": frozenset()},
        {"audience": ""},
        {"token_type": ""},
        {"name": ""},
        {"lifetime_seconds": 0},
    ],
    ids=str,
)
def test_an_unsafe_row_of_the_table_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(OperatorError):
        replace(PEOPLE, **change)


@pytest.mark.parametrize("address", ["http://127.0.0.1:8080/keys", "http://[::1]/keys", "http://localhost/keys"])
def test_keys_may_come_in_the_clear_from_this_machine_only(address: str) -> None:
    assert replace(PEOPLE, jwks_address=address).jwks_address == address


def test_a_token_may_name_no_organization() -> None:
    assert said(org_id=None).organization is None


def test_no_issuer_speaks_for_api_keys() -> None:
    with pytest.raises(OperatorError, match="for USER or for SERVICE"):
        replace(PEOPLE, kind=PrincipalKind.API_KEY)


@pytest.mark.parametrize("header", [{}, {"typ": "JWT"}, {"typ": "application/jwt"}], ids=str)
def test_a_provider_that_does_not_type_its_tokens_can_be_believed(header: dict[str, str]) -> None:
    untyped = {name: value for name, value in good_header().items() if name != "typ"}
    assert read_header(replace(PEOPLE, token_type=None), untyped | header) == ("RS256", "RS256")
    with pytest.raises(TokenRefused, match="wrong_type"):
        read_header(PEOPLE, untyped | header)


@pytest.mark.parametrize("token_type", ["at+jwt", "logout+jwt", "", None, 7], ids=repr)
def test_a_type_that_says_otherwise_is_refused_there_as_well(token_type: object) -> None:
    with pytest.raises(TokenRefused, match="wrong_type"):
        read_header(replace(PEOPLE, token_type=None), good_header() | {"typ": token_type})
