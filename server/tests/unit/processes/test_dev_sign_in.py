"""The sign-in of `dev`: only who has the key of its terminal chooses a role, and only the console gets a token."""

import base64
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest

from openbell_server.devtools.dev_issuer import DevIssuer
from openbell_server.devtools.dev_sign_in import CONSOLE_CLIENT

CONSOLE = "http://127.0.0.1:8070"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[DevIssuer]:
    with DevIssuer(tmp_path, "workos") as started:
        started.console_environment(CONSOLE)
        yield started


@pytest.fixture
def client(issuer: DevIssuer) -> Iterator[httpx.Client]:
    address = issuer.console_environment(CONSOLE)["OPENBELL_CONSOLE_ISSUER"]
    with httpx.Client(base_url=f"{address}/", trust_env=False, timeout=60) as opened:
        yield opened


def query(issuer: DevIssuer, **changes: str) -> dict[str, str]:
    return {
        "response_type": "code",
        "client_id": CONSOLE_CLIENT,
        "redirect_uri": f"{CONSOLE}/console/callback",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "state": "the state",
        "nonce": "the nonce",
        "login_hint": issuer.sign_in_key,
        **changes,
    }


def choices(page: httpx.Response) -> dict[str, str]:
    assert page.status_code == 200, page.text
    links = [link.replace("&amp;", "&") for link in re.findall(r'href="([^"]+)"', page.text)]
    return {link.rpartition("=")[2]: link for link in links}


def code_of(client: httpx.Client, issuer: DevIssuer, role: str = "member") -> str:
    chosen = client.get(choices(client.get("authorize", params=query(issuer)))[role])
    address = urlsplit(chosen.headers["location"])
    assert f"{address.scheme}://{address.netloc}{address.path}" == f"{CONSOLE}/console/callback"
    answer = parse_qs(address.query)
    assert answer["state"] == ["the state"]
    return answer["code"][0]


def form(code: str, **changes: str) -> dict[str, str]:
    given = {"grant_type": "authorization_code", "client_id": CONSOLE_CLIENT, "code": code, "code_verifier": VERIFIER}
    return given | {"redirect_uri": f"{CONSOLE}/console/callback"} | changes


@pytest.mark.parametrize("role", ["admin", "member", "read_only"])
def test_a_user_chooses_a_role_and_the_console_gets_the_tokens(
    client: httpx.Client, issuer: DevIssuer, role: str
) -> None:
    tokens = client.post("token", data=form(code_of(client, issuer, role))).json()
    access = jwt.decode(tokens["access_token"], options={"verify_signature": False})
    assert (access["sub"], access["org_id"], access["role"]) == ("you", "org_acme", role)
    identity = jwt.decode(tokens["id_token"], options={"verify_signature": False})
    assert (identity["aud"], identity["nonce"], identity["sub"]) == (CONSOLE_CLIENT, "the nonce", "you")
    again = {"grant_type": "refresh_token", "client_id": CONSOLE_CLIENT, "refresh_token": tokens["refresh_token"]}
    renewed = client.post("token", data=again).json()
    assert jwt.decode(renewed["access_token"], options={"verify_signature": False})["role"] == role
    assert client.post("token", data=again).json() == {"error": "invalid_grant"}


def test_the_page_has_no_script_and_may_load_nothing(client: httpx.Client, issuer: DevIssuer) -> None:
    page = client.get("authorize", params=query(issuer))
    assert "<script" not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert page.headers["referrer-policy"] == "no-referrer"


def test_other_users_of_the_machine_do_not_have_the_key(client: httpx.Client, issuer: DevIssuer) -> None:
    for hint in ("", "guess", issuer.sign_in_key[:-1]):
        refused = client.get("authorize", params=query(issuer, login_hint=hint))
        assert (refused.status_code, "ticket" in refused.text, refused.headers.get("set-cookie")) == (403, False, None)


def test_the_browser_that_had_the_key_needs_it_once(client: httpx.Client, issuer: DevIssuer) -> None:
    assert client.get("authorize", params=query(issuer)).headers["set-cookie"].endswith("SameSite=Lax; Max-Age=86400")
    # The client keeps the cookie.
    assert choices(client.get("authorize", params=query(issuer, login_hint="")))


@pytest.mark.parametrize(
    "change",
    [
        {"redirect_uri": "http://127.0.0.1:9999/console/callback"},
        {"client_id": "another"},
        {"code_challenge_method": "plain"},
        {"response_type": "token"},
    ],
    ids=str,
)
def test_a_code_goes_to_the_console_only(client: httpx.Client, issuer: DevIssuer, change: dict[str, str]) -> None:
    refused = client.get("authorize", params=query(issuer, **change))
    assert (refused.status_code, "ticket" in refused.text) == (400, False)


@pytest.mark.parametrize(
    "change", [{"code_verifier": "w" * 43}, {"code_verifier": ""}, {"redirect_uri": "http://x"}], ids=str
)
def test_a_code_needs_its_verifier_and_is_redeemed_once(
    client: httpx.Client, issuer: DevIssuer, change: dict[str, str]
) -> None:
    code = code_of(client, issuer)
    assert client.post("token", data=form(code, **change)).json() == {"error": "invalid_grant"}
    assert client.post("token", data=form(code)).json() == {"error": "invalid_grant"}


def test_a_choice_is_made_once(client: httpx.Client, issuer: DevIssuer) -> None:
    link = choices(client.get("authorize", params=query(issuer)))["admin"]
    assert client.get(link.replace("=admin", "=owner")).status_code == 400
    assert client.get(link).status_code == 400
