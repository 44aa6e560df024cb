"""Signing in with a code: what is stored, how a provider is polled, and what each failure reports."""

import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest
from typer.testing import CliRunner, Result

from openbell.cli import app

RUN = CliRunner()
ISSUER = "https://login.example"
OPTIONS = ["--issuer", ISSUER, "--client-id", "cli"]
CODE = {
    "device_code": "d3vice",
    "user_code": "WDJB-MJHT",
    "verification_uri": f"{ISSUER}/device",
    "expires_in": 60,
    "interval": 5,
}
TOKENS = {"access_token": "t0ken", "token_type": "Bearer", "expires_in": 3600}
ME = {
    "principal_type": "USER",
    "principal_id": "olga",
    "organization": {"id": "o", "name": "Acme", "external_id": "e", "disabled": False, "entitlements": []},
    "role": "admin",
    "operations": [],
    "permissions": [],
    "own_orders_only": False,
}
Answer = dict[str, Any] | int | Exception


class World:
    """A provider and a platform; `polls` has the answers of the token endpoint, the last one for good."""

    def __init__(self) -> None:
        self.metadata: dict[str, Any] = {
            "issuer": ISSUER,
            "device_authorization_endpoint": f"{ISSUER}/device/code",
            "token_endpoint": f"{ISSUER}/token",
            "scopes_supported": ["openid", "offline_access"],
        }
        self.code: Answer = CODE
        self.polls: list[Answer] = [TOKENS]
        self.me = httpx.Response(200, json=ME)
        self.forms: list[dict[str, str]] = []
        self.bearers: list[str] = []
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.host == "login.example":
            assert "authorization" not in request.headers
            self.forms.append(dict(parse_qsl(request.content.decode())))
        match request.url.path:
            case "/.well-known/openid-configuration":
                return httpx.Response(200, json=self.metadata)
            case "/device/code":
                return _response(self.code)
            case "/token":
                return _response(self.polls.pop(0) if len(self.polls) > 1 else self.polls[0])
            case path:
                self.bearers.append(request.headers["authorization"])
                return self.me if path == "/v1/me" else httpx.Response(200, json={"data": []})

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def _response(answer: Answer) -> httpx.Response:
    if isinstance(answer, Exception):
        raise answer
    if isinstance(answer, int):
        return httpx.Response(answer, text="<html>")
    return httpx.Response(400 if "error" in answer else 200, json=answer)


@pytest.fixture(autouse=True)
def _environment_as_before() -> Iterator[None]:
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world, inside = World(), httpx.Client.__init__

    def outside(self: httpx.Client, **options: Any) -> None:
        inside(self, **options | {"transport": httpx.MockTransport(world)})

    monkeypatch.setattr(httpx.Client, "__init__", outside)
    monkeypatch.setattr("openbell.cli.device_flow.sleep", world.sleep)
    monkeypatch.setattr("openbell.cli.device_flow.monotonic", lambda: world.now)
    return world


def login(*words: str, code: int = 0) -> Result:
    result = RUN.invoke(app, ["--profile", "desk", "login", *words])
    assert result.exit_code == code, result.output
    assert "t0ken" not in result.output
    return result


def profile(name: str = "desk") -> dict[str, str]:
    stored: dict[str, str] = json.loads(Path(os.environ["OPENBELL_CONFIG"]).read_text())["profiles"][name]
    return stored


def change_profile(**changes: str) -> None:
    path = Path(os.environ["OPENBELL_CONFIG"])
    stored = json.loads(path.read_text())
    stored["profiles"]["desk"] |= changes
    path.write_text(json.dumps(stored))


def switches(code: int = 0) -> str:
    """A command that uses the token."""
    result = RUN.invoke(app, ["--profile", "desk", "controls", "switch", "list"])
    assert result.exit_code == code, result.output
    return result.output


def error(name: str) -> dict[str, Any]:
    return {"error": name}


def test_a_confirmed_code_becomes_a_token_that_later_commands_send(world: World) -> None:
    world.polls = [error("authorization_pending"), TOKENS]
    shown = login(*OPTIONS)
    assert "Open https://login.example/device in a browser and confirm the code WDJB-MJHT" in shown.stderr
    assert "Signed in to http://127.0.0.1:8080 as olga of Acme (admin)." in shown.stdout
    assert world.forms[1:3] == [
        {"client_id": "cli", "scope": "openid offline_access"},
        {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": "d3vice", "client_id": "cli"},
    ]
    assert (profile()["issuer"], profile()["client_id"], profile()["access_token"]) == (ISSUER, "cli", "t0ken")
    assert Path(os.environ["OPENBELL_CONFIG"]).stat().st_mode & 0o777 == 0o600
    switches()
    assert world.bearers == ["Bearer t0ken"] * 2


def test_a_profile_reuses_its_provider_and_never_that_of_another_platform(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    login(*OPTIONS, "--audience", "https://openbell.example", "--url", "https://live.example", "--scope", "openid x")
    monkeypatch.setenv("OPENBELL_LOGIN_ISSUER", "https://dev.example")
    login()
    assert profile()["url"] == "https://live.example"
    asked = {"client_id": "cli", "scope": "openid x"}
    target = {"audience": "https://openbell.example", "resource": "https://openbell.example"}
    assert world.forms[4] == world.forms[1] == asked | target
    assert target.items() <= world.forms[2].items(), "a provider may issue a token for itself without it"


def test_the_provider_of_the_environment_is_used_for_the_platform_of_the_environment(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBELL_LOGIN_ISSUER", ISSUER)
    monkeypatch.setenv("OPENBELL_LOGIN_CLIENT_ID", "cli")
    monkeypatch.setenv("OPENBELL_ACCOUNT", "a")
    monkeypatch.setenv("OPENBELL_API_KEY", "k3y")
    assert "Use it with --profile desk" in login().stdout
    assert (profile()["url"], profile()["account"]) == ("http://127.0.0.1:8080", "a")
    assert "api_key" not in profile()
    monkeypatch.setenv("OPENBELL_LOGIN_CLIENT_ID", "other")
    login()
    assert world.forms[-1]["client_id"] == "other"


def test_polls_keep_their_interval_and_slow_down_adds_five_seconds(world: World) -> None:
    world.polls = [error("authorization_pending"), error("slow_down"), error("slow_down"), TOKENS]
    login(*OPTIONS)
    assert world.slept == [5, 5, 10, 15]


def test_polls_without_an_answer_are_repeated_half_as_often(world: World) -> None:
    world.polls = [httpx.ReadTimeout("late"), 503, TOKENS]
    login(*OPTIONS)
    assert world.slept == [5, 10, 20]


@pytest.mark.parametrize(
    ("polls", "code", "messages"),
    [
        ([error("access_denied")], 1, ["denied at the provider", "Run the command again for a new code"]),
        ([error("authorization_pending")], 1, ["expired before it was confirmed", "for a new code"]),
        ([error("expired_token")], 1, ["expired before it was confirmed", "for a new code"]),
        ([error("slow_down")], 1, ["expired before it was confirmed"]),
        (
            [{"error": "invalid_client", "error_description": "\x1b[2Jwho?"}],
            1,
            ["invalid_client (\N{REPLACEMENT CHARACTER}[2Jwho?)", "client cli that may use the device flow"],
        ),
        ([httpx.ConnectError("refused")], 3, ["did not answer", "refused", "Check --issuer"]),
        ([502], 3, ["did not answer", "status 502"]),
        ([404], 2, ["not one of OpenID"]),
        ([{"access_token": "t0ken", "token_type": "mac"}], 2, ["not one of OpenID"]),
        ([TOKENS | {"expires_in": "soon"}], 2, ["not one of OpenID"]),
    ],
    ids=str,
)
def test_a_sign_in_that_fails_reports_why_stores_nothing_and_ends(
    world: World, polls: list[Answer], code: int, messages: list[str]
) -> None:
    world.polls = polls
    shown = login(*OPTIONS, code=code).stderr
    assert all(message in shown for message in messages), shown
    assert world.now <= 60
    assert not Path(os.environ["OPENBELL_CONFIG"]).exists()


@pytest.mark.parametrize(
    ("prepare", "code", "message"),
    [
        (lambda world: world.metadata.pop("device_authorization_endpoint"), 2, "has no device_authorization_endpoint"),
        (lambda world: world.metadata.update(issuer="https://evil.example"), 2, "does not describe the issuer"),
        (lambda world: world.metadata.update(token_endpoint="http://login.example/t"), 2, "is not an https address"),
        (lambda world: setattr(world, "code", error("unauthorized_client")), 1, "unauthorized_client"),
        (lambda world: setattr(world, "code", CODE | {"verification_uri": "file:///etc"}), 2, "not an https address"),
        (lambda world: setattr(world, "code", CODE | {"interval": None}), 2, "not one of OpenID"),
        (lambda world: setattr(world, "code", CODE | {"interval": 1e9}), 1, "expired before"),
        (lambda world: setattr(world, "code", {}), 2, "not one of OpenID"),
        (lambda world: setattr(world, "me", httpx.Response(401, json={"code": "unauthorized"})), 1, "not accept"),
    ],
)
def test_a_provider_that_cannot_be_used_is_refused_with_a_reason(
    world: World, prepare: Callable[[World], object], code: int, message: str
) -> None:
    prepare(world)
    assert message in login(*OPTIONS, code=code).stderr
    assert not Path(os.environ["OPENBELL_CONFIG"]).exists()


def test_a_code_is_waited_for_half_an_hour_at_most(world: World) -> None:
    world.code, world.polls = CODE | {"expires_in": 10_000}, [error("authorization_pending")]
    login(*OPTIONS, code=1)
    assert world.now <= 1800


def test_without_a_provider_the_options_are_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Pass --issuer and --client-id" in login(code=2).stderr
    assert "not an https address" in login("--issuer", "http://login.example", "--client-id", "c", code=2).stderr
    monkeypatch.delenv("OPENBELL_URL")
    assert "Pass --url" in login(*OPTIONS, code=2).stderr
    assert world.forms == []


def test_an_expired_token_is_never_sent_and_the_message_names_the_command(world: World) -> None:
    world.polls = [TOKENS | {"expires_in": 29}]
    login(*OPTIONS)
    shown = switches(code=2)
    assert "The sign-in of the profile desk has expired." in shown
    assert "Run `openbell --profile desk login` again." in shown
    assert len(world.bearers) == 1


def test_a_token_of_the_environment_needs_no_profiles(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(os.environ["OPENBELL_CONFIG"]).write_text("[")
    monkeypatch.setenv("OPENBELL_ACCESS_TOKEN", "other")
    assert RUN.invoke(app, ["controls", "switch", "list"]).exit_code == 0
    assert world.bearers == ["Bearer other"]


def test_an_expired_token_is_refreshed_and_the_new_one_is_stored(world: World) -> None:
    world.polls = [TOKENS | {"refresh_token": "r1"}]
    login(*OPTIONS)
    change_profile(token_expires_at=datetime.now(UTC).isoformat())
    world.polls = [TOKENS | {"access_token": "t0ken-2"}]
    switches()
    assert world.forms[-1] == {"grant_type": "refresh_token", "refresh_token": "r1", "client_id": "cli"}
    assert (profile()["access_token"], profile()["refresh_token"]) == ("t0ken-2", "r1")
    assert world.bearers[-1] == "Bearer t0ken-2"
    switches()
    assert (world.bearers[-1], len(world.forms)) == ("Bearer t0ken-2", 5)


def test_a_refresh_that_is_refused_asks_for_a_new_sign_in(world: World) -> None:
    world.polls = [TOKENS | {"refresh_token": "r1"}]
    login(*OPTIONS)
    change_profile(token_expires_at=(datetime.now(UTC) - timedelta(days=1)).isoformat())
    world.polls = [error("invalid_grant")]
    assert "login` again" in switches(code=2)
    world.polls = [httpx.ConnectError("refused")]
    assert "did not answer" in switches(code=3)


def test_a_new_sign_in_forgets_the_refresh_token_of_the_old_one(world: World) -> None:
    world.polls = [TOKENS | {"refresh_token": "r1"}, TOKENS]
    login(*OPTIONS)
    assert profile()["refresh_token"] == "r1"
    login()
    assert "refresh_token" not in profile()
    shown = RUN.invoke(app, ["profiles", "list"]).output
    assert ("t0ken" in shown, f"issuer={ISSUER}" in shown) == (False, True)
