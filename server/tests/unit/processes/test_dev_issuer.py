"""The issuer of `dev`: its tokens are believed by what its setting says, and die with it."""

import json
import stat
import time
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner, Result

from openbell_server.adapters.identity.tokens import JwtAccessTokens
from openbell_server.cli import app
from openbell_server.devtools import dev_issuer
from openbell_server.devtools.dev_issuer import DEVICE_GRANT, DevIssuer, mint
from openbell_server.domain.access.access_tokens import TokenClaims
from openbell_server.domain.access.principals import PrincipalKind, Role
from openbell_server.domain.errors import OperatorError
from openbell_server.settings import Settings

FILE = "dev-issuer.json"
REFUSAL = "beside a running `openbell-server dev`"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where dev keeps what is its own; commands run beside it."""
    monkeypatch.chdir(tmp_path)
    made = tmp_path / ".openbell"
    made.mkdir()
    return made


async def verified(issuer: DevIssuer, token: str, monkeypatch: pytest.MonkeyPatch) -> TokenClaims | None:
    monkeypatch.setenv("OPENBELL_ISSUERS", issuer.setting)
    async with httpx.AsyncClient() as client:
        return await JwtAccessTokens(Settings().issuers, client, time.monotonic, lambda: datetime.now(UTC)).verify(
            token
        )


def minted(*words: str) -> Result:
    return CliRunner().invoke(app, ["tokens", "mint", *words])


async def test_a_user_s_token_says_who_and_where(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with DevIssuer(folder, "workos") as issuer:
        said = minted("--user", "auth|7", "--organization", "org_acme", "--role", "admin")
        assert said.exit_code == 0, said.output
        claims = await verified(issuer, said.output.strip(), monkeypatch)
        assert claims is not None
        assert (claims.kind, claims.provider, claims.subject) == (PrincipalKind.USER, "workos", "auth|7")
        assert (claims.organization, claims.role, claims.scopes) == ("org_acme", Role.ADMIN, frozenset())


async def test_a_service_account_s_token_says_what_it_may(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with DevIssuer(folder, "workos") as issuer:
        said = minted("--service", "reporter", "--scope", "intent:read", "--scope", "credential:read")
        claims = await verified(issuer, said.output.strip(), monkeypatch)
        assert claims is not None
        assert (claims.kind, claims.subject, claims.organization) == (PrincipalKind.SERVICE, "reporter", None)
        assert claims.scopes == {"intent:read", "credential:read"}


async def test_a_user_may_have_no_organization(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with DevIssuer(folder, "workos") as issuer:
        claims = await verified(issuer, minted("--user", "auth|7").output.strip(), monkeypatch)
        assert claims is not None
        assert (claims.organization, claims.role) == (None, None)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--user", "a", "--service", "b"],
        ["--user", "a", "--scope", "intent:read"],
        ["--service", "a", "--role", "admin"],
        ["--service", "a", "--organization", "org_acme"],
        ["--user", " "],
    ],
    ids=" ".join,
)
def test_what_makes_no_caller_is_refused_with_a_sentence(folder: Path, words: list[str]) -> None:
    with DevIssuer(folder, "workos"):
        assert isinstance(minted(*words).exception, OperatorError)


def test_the_key_is_its_owner_s_alone_and_ends_with_the_issuer(folder: Path) -> None:
    with DevIssuer(folder, "workos"):
        assert stat.S_IMODE((folder / FILE).stat().st_mode) == 0o600
    assert list(folder.iterdir()) == []


def test_nothing_is_minted_without_a_running_issuer(folder: Path) -> None:
    assert REFUSAL in str(minted("--user", "auth|7").exception)
    with DevIssuer(folder, "workos"):
        kept = (folder / FILE).read_text()
    facts = json.loads(kept)
    # As a dev that was killed leaves it: its id may by now be another's.
    for gone in (facts | {"pid": 2**22 + 1}, facts | {"started": facts["started"] - 1}):
        (folder / FILE).write_text(json.dumps(gone))
        with pytest.raises(OperatorError, match=REFUSAL):
            mint(folder, PrincipalKind.USER, "auth|7", {})


async def test_a_token_of_an_earlier_issuer_is_no_good(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with DevIssuer(folder, "workos"):
        old = minted("--user", "auth|7").output.strip()
    with DevIssuer(folder, "workos") as issuer:
        assert await verified(issuer, old, monkeypatch) is None
        assert await verified(issuer, minted("--user", "auth|7").output.strip(), monkeypatch) is not None


def device_flow(issuer: DevIssuer, **changes: str) -> httpx.Response:
    """The reply of the token endpoint to a code that was just given; a change of the form is made in both requests."""
    address = issuer.login_environment["OPENBELL_LOGIN_ISSUER"]
    with httpx.Client(trust_env=False, timeout=60) as client:
        metadata = client.get(f"{address}/.well-known/openid-configuration").raise_for_status().json()
        assert metadata["issuer"] == address
        form = {"client_id": issuer.login_environment["OPENBELL_LOGIN_CLIENT_ID"]} | changes
        code = client.post(metadata["device_authorization_endpoint"], data=form)
        if not code.is_success:
            return code
        assert client.get(code.json()["verification_uri"]).is_success
        form = {"grant_type": DEVICE_GRANT, "device_code": code.json()["device_code"]} | form
        reply = client.post(metadata["token_endpoint"], data=form)
        assert client.post(metadata["token_endpoint"], data=form).json() != reply.json() or not reply.is_success
        return reply


async def test_the_device_flow_signs_in_an_admin_who_has_the_client_id(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DevIssuer(folder, "workos") as issuer:
        claims = await verified(issuer, device_flow(issuer).json()["access_token"], monkeypatch)
        assert claims is not None
        assert (claims.subject, claims.organization, claims.role) == ("you", "org_acme", Role.ADMIN)
        assert device_flow(issuer, client_id="dev").json() == {"error": "invalid_client"}
        assert device_flow(issuer, device_code="guessed").json() == {"error": "expired_token"}
        assert device_flow(issuer, grant_type="password").json() == {"error": "unsupported_grant_type"}
        assert device_flow(issuer, client_id="x" * 5000).json() == {"error": "invalid_request"}


def test_a_code_is_no_good_after_its_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev_issuer, "CODE_SECONDS", -1)
    with DevIssuer(folder, "workos") as issuer:
        assert device_flow(issuer).json() == {"error": "expired_token"}


async def test_it_serves_loopback_only_and_nothing_but_its_public_key(folder: Path) -> None:
    with DevIssuer(folder, "workos") as issuer:
        addresses = {row["jwks_address"] for row in json.loads(issuer.setting)}
        (address,) = addresses
        assert address.startswith("http://127.0.0.1:")
        async with httpx.AsyncClient() as client:
            (key,) = (await client.get(address)).json()["keys"]
            assert set(key) == {"kty", "crv", "x", "kid", "use", "alg"}
            assert (await client.get(address.replace("/jwks", "/dev-issuer.json"))).status_code == 404
