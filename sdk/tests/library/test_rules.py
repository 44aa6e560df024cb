"""Rules and switches with both clients and by command: what goes out, who it is from, and what is shown."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from openbell import AsyncClient, Client, Conflict, NotConfigured, Switch
from openbell.cli import app

RUN = CliRunner(env={"OPENBELL_API_KEY": "key-1", "OPENBELL_ACCOUNT": "a", "NO_COLOR": None})
UNTIL = datetime(2026, 11, 2, 21, tzinfo=UTC)
RULE = "/v1/controls/rules/QTY_MAX"
CHANGES = "/v1/controls/changes"
WHERE = {"organization_id": "o", "scope": "ACCOUNT", "account_id": "a"}
SWITCHES = "/v1/controls/switches"
SYMBOL = "scope=SYMBOL&account_id=a&symbol=BRK%2FB"
ACCOUNT = "scope=ACCOUNT&account_id=a"


class Platform:
    """Answers one request after the other and keeps what it was sent."""

    def __init__(self, *answers: httpx.Response) -> None:
        self.answers = list(answers)
        self.sent: list[tuple[str, str, Any, str | None]] = []
        self.credentials: list[tuple[str | None, str | None]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        self.sent.append((request.method, request.url.raw_path.decode(), body, request.headers.get("if-match")))
        self.credentials.append((request.headers.get("x-api-key"), request.headers.get("authorization")))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def answers(rule: dict[str, Any], switch: dict[str, Any]) -> list[httpx.Response]:
    who = {"principal_type": "USER", "principal_id": "olga", "changed_at": "2026-11-02T14:30:00Z"}
    changes = [{**WHERE, "code": "QTY_MAX", "version": version, "after": rule, **who} for version in (2, 1)]
    pages = [{"data": [changes[0]], "next_cursor": "c", "last_cursor": "c"}, {"data": [changes[1]]}]
    bodies = [{"data": [rule]}, rule, rule, None, *pages, {"data": [switch]}, switch]
    return [httpx.Response(204) if body is None else httpx.Response(200, json=body) for body in bodies]


def test_both_clients_ask_for_the_same(rule: dict[str, Any], switch: dict[str, Any]) -> None:
    plain, awaited = (Platform(*answers(rule, switch)) for _ in range(2))
    with Client("key-1", account_id="a", transport=httpx.MockTransport(plain)) as client:
        (kept,) = client.rules(symbol="BRK/B")
        assert client.rule("QTY_MAX", api_key_id="k") == kept
        options: Any = {"mode": "SHADOW", "on_missing": "DENY", "expires_at": UNTIL, "if_version": 1}
        assert client.set_rule("QTY_MAX", {"quantity": "9"}, reason="r", symbol="BRK/B", **options) == kept
        client.remove_rule("QTY_MAX", organization=True, reason="over", if_version=2)
        assert [change.version for change in client.control_changes("QTY_MAX")] == [2, 1]
        assert client.switch(account_id="b").status == "HALTED"
        halted = client.set_switch("HALTED", reason="a runaway", cancel_working=True)

    async def ask() -> None:
        async with AsyncClient("key-1", account_id="a", transport=httpx.MockTransport(awaited)) as client:
            assert await client.rules(symbol="BRK/B") == (kept,)
            assert await client.rule("QTY_MAX", api_key_id="k") == kept
            assert await client.set_rule("QTY_MAX", {"quantity": "9"}, reason="r", symbol="BRK/B", **options) == kept
            await client.remove_rule("QTY_MAX", organization=True, reason="over", if_version=2)
            assert [change.version async for change in client.control_changes("QTY_MAX")] == [2, 1]
            assert (await client.switch(account_id="b")).status == "HALTED"
            assert await client.set_switch("HALTED", reason="a runaway", cancel_working=True) == halted

    asyncio.run(ask())
    assert isinstance(halted, Switch)
    assert (kept.in_force, kept.in_force.expires_at) == (kept.override, UNTIL)
    assert kept.terms is not None
    assert kept.terms.parameters == {"quantity": "500"}
    body = {"mode": "SHADOW", "parameters": {"quantity": "9"}, "reason": "r", "on_missing": "DENY"}
    history = f"{CHANGES}?limit=100&code=QTY_MAX&{ACCOUNT}"
    assert (
        plain.sent
        == awaited.sent
        == [
            ("GET", f"/v1/controls/rules?limit=100&{SYMBOL}", None, None),
            ("GET", f"{RULE}?scope=KEY&api_key_id=k", None, None),
            ("PUT", f"{RULE}?{SYMBOL}", body | {"expires_at": "2026-11-02T21:00:00+00:00"}, '"1"'),
            ("DELETE", f"{RULE}?scope=ORGANIZATION&reason=over", None, '"2"'),
            ("GET", history, None, None),
            ("GET", f"{history}&next_cursor=c", None, None),
            ("GET", f"{SWITCHES}?scope=ACCOUNT&account_id=b", None, None),
            (
                "PUT",
                f"{SWITCHES}?{ACCOUNT}",
                {"status": "HALTED", "reason": "a runaway", "cancel_working": True},
                None,
            ),
        ]
    )


def test_a_version_that_was_overtaken_is_a_conflict() -> None:
    platform = Platform(httpx.Response(412, json={"code": "version_mismatch", "detail": "it is at version 4"}))
    with (
        Client("key-1", account_id="a", transport=httpx.MockTransport(platform)) as client,
        pytest.raises(Conflict, match="version 4"),
    ):
        client.set_switch("HALTED", reason="r", if_version=3)


@pytest.mark.parametrize(
    "scope",
    [
        {"organization": True, "api_key_id": "k"},
        {"api_key_id": "k", "symbol": "A"},
        {"organization": True, "account_id": "a"},
    ],
)
def test_two_scopes_at_once_are_refused_before_anything_is_sent(scope: Any) -> None:
    with Client("key-1", account_id="a") as client, pytest.raises(ValueError, match="Name one scope"):
        client.rules(**scope)


def test_an_access_token_speaks_instead_of_the_key_and_never_shows(switch: dict[str, Any]) -> None:
    platform = Platform(httpx.Response(200, json={"data": [switch]}))
    with Client("key-1", access_token="t0ken", account_id="a", transport=httpx.MockTransport(platform)) as client:
        client.switch()
        assert "t0ken" not in repr(client)
    assert platform.credentials == [(None, "Bearer t0ken")]
    with pytest.raises(NotConfigured, match="access token contains a space"):
        Client(access_token="a b")


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> Platform:
    platform, inside = Platform(), Client.__init__

    def connected(self: Client, **options: Any) -> None:
        inside(self, **options, transport=httpx.MockTransport(platform))

    monkeypatch.setattr(Client, "__init__", connected)
    return platform


def run(*arguments: str, code: int = 0) -> str:
    result = RUN.invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result.stdout


def test_rules_are_listed_with_what_is_in_force(platform: Platform, rule: dict[str, Any]) -> None:
    platform.answers = [httpx.Response(200, json={"data": [rule]})]
    said = run("controls", "rules", "list", "--symbol", "BRK/B")
    assert "QTY_MAX" in said
    assert 'SHADOW {"quantity": "9"}' in said
    assert "2026-11-02 21:00:00Z" in said
    assert 'HARD {"quantity": "500"}' in said
    assert json.loads(run("controls", "rules", "list", "--symbol", "BRK/B", "--json")) == rule
    assert "SYMBOL a BRK/B:" in run("controls", "rules", "list", "--all")
    assert platform.sent[0][1] == f"/v1/controls/rules?limit=100&{SYMBOL}"
    assert platform.sent[2][1] == "/v1/controls/rules?limit=100"


def test_a_rule_is_set_shown_and_removed_by_command(platform: Platform, rule: dict[str, Any]) -> None:
    platform.answers = [httpx.Response(200, json=rule)]
    given = ("controls", "rules", "set", "QTY_MAX", '{"quantity": "9"}', "--reason", "r", "--mode", "shadow")
    assert "QTY_MAX" in run(*given, "--expires-at", "2026-11-02T21:00:00Z", "--if-version", "1", "--organization")
    assert "QTY_MAX" in run("controls", "rules", "show", "QTY_MAX", "--api-key-id", "k")
    platform.answers = [httpx.Response(204)]
    assert run("controls", "rules", "remove", "QTY_MAX", "--reason", "over") == "QTY_MAX is removed\n"
    assert [sent[:2] for sent in platform.sent] == [
        ("PUT", f"{RULE}?scope=ORGANIZATION"),
        ("GET", f"{RULE}?scope=KEY&api_key_id=k"),
        ("DELETE", f"{RULE}?{ACCOUNT}&reason=over"),
    ]
    assert platform.sent[0][3] == '"1"'
    run("controls", "rules", "set", "QTY_MAX", "500", "--reason", "r", code=2)


def test_history_is_shown_the_newest_first(platform: Platform, rule: dict[str, Any]) -> None:
    who = {"principal_type": "USER", "principal_id": "olga", "changed_at": "2026-11-02T14:30:00Z"}
    removal = {**WHERE, "code": "QTY_MAX", "version": 3, "before": rule, "reason": "\x1b[2Jover", **who}
    platform.answers = [httpx.Response(200, json={"data": [removal]})]
    said = run("controls", "changes", "QTY_MAX")
    assert "removed" in said
    assert "\x1b" not in said
    run("controls", "changes", "--all")
    assert [path for _, path, *_ in platform.sent] == [
        f"{CHANGES}?limit=100&code=QTY_MAX&{ACCOUNT}",
        f"{CHANGES}?limit=100",
    ]


def test_an_account_is_halted_by_a_key_and_resumed_by_a_person(platform: Platform, switch: dict[str, Any]) -> None:
    platform.answers = [httpx.Response(200, json=switch)]
    said = run("halt", "a", "--reason", "a runaway", "--cancel-working")
    assert said == "ACCOUNT a is HALTED, working orders are cancelled: a runaway (version 3)\n"
    run("resume", "--yes", "a", "--reason", "fixed", "--access-token", "t0ken")
    platform.answers = [httpx.Response(200, json={"data": [switch]})]
    assert run("controls", "switch", "show", "--json").startswith("{")
    assert "ACCOUNT a" in run("controls", "switch", "list")
    platform.answers = [httpx.Response(200, json=switch)]
    run("controls", "switch", "set", "reduce_only", "--reason", "r", "--organization")
    assert platform.sent == [
        *(
            ("PUT", f"{SWITCHES}?{ACCOUNT}", body, None)
            for body in (
                {"status": "HALTED", "reason": "a runaway", "cancel_working": True},
                {"status": "ACTIVE", "reason": "fixed"},
            )
        ),
        ("GET", f"{SWITCHES}?{ACCOUNT}", None, None),
        ("GET", f"{SWITCHES}?limit=100", None, None),
        ("PUT", f"{SWITCHES}?scope=ORGANIZATION", {"status": "REDUCE_ONLY", "reason": "r"}, None),
    ]
    assert platform.credentials[:2] == [("key-1", None), (None, "Bearer t0ken")]


def test_halting_needs_a_reason(platform: Platform) -> None:
    run("halt", "a", code=2)
    assert platform.sent == []


def test_halt_and_resume_take_the_account_of_the_environment(
    platform: Platform, switch: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBELL_ACCOUNT", "a")
    platform.answers = [httpx.Response(200, json=switch)]
    run("halt", "--reason", "a runaway")
    run("resume", "--yes", "--reason", "fixed", "--access-token", "t0ken")
    assert [path for _, path, *_ in platform.sent] == [f"{SWITCHES}?{ACCOUNT}"] * 2


def test_a_version_that_is_not_there_any_more_is_to_be_read_again(platform: Platform) -> None:
    platform.answers = [httpx.Response(412, json={"code": "version_mismatch", "detail": "it is at version 2"})]
    arguments = ["controls", "rules", "set", "QTY_MAX", '{"quantity": "7"}', "--if-version", "1", "--reason", "r"]
    result = RUN.invoke(app, arguments)
    assert result.exit_code == 1
    assert "Read it again" in result.stderr
    assert "intent" not in result.stderr


def test_history_says_until_when_terms_were_set(platform: Platform, rule: dict[str, Any]) -> None:
    who = {"principal_type": "USER", "principal_id": "olga", "changed_at": "2026-11-02T14:30:00Z"}
    for_a_time = rule | {"in_force": rule["in_force"] | {"expires_at": "2026-11-02T15:00:00Z"}}
    change = {**WHERE, "code": "QTY_MAX", "version": 3, "after": for_a_time, "reason": "once", **who}
    platform.answers = [httpx.Response(200, json={"data": [change]})]
    assert "until 2026-11-02 15:00:00Z" in run("controls", "changes", "QTY_MAX")
