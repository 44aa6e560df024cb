"""Controls with both clients and by command: what goes out, and what is shown."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from openbell import AsyncClient, Client, Invalid, Market
from openbell.cli import app

RUN = CliRunner(env={"OPENBELL_API_KEY": "key-1", "OPENBELL_ACCOUNT": "a", "NO_COLOR": None})
PATH = "/v1/controls/accounts/a/symbols/BRK%2FB"
RULE: dict[str, Any] = {
    "scope": "PLATFORM",
    "code": "QTY_MAX",
    "mode": "HARD",
    "is_strictest": False,
    "parameters": {"quantity": "9"},
    "version": 1,
}
KIND = {
    "code": "NOTIONAL_MAX",
    "summary": "Refuses an order of a higher value.",
    "parameters": {"properties": {"value": {}, "buffer_percent": {}}, "required": ["value"]},
    "scopes": ["PLATFORM", "ACCOUNT"],
    "gates": ["ACCEPT", "DOOR"],
    "counts": False,
    "settable": True,
    "unit": "VALUE",
}


class Platform:
    """Answers every request alike and keeps what it was sent."""

    def __init__(self, *answers: httpx.Response) -> None:
        self.answers = list(answers)
        self.sent: list[tuple[str, str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        self.sent.append((request.method, request.url.raw_path.decode(), body))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def test_both_clients_ask_for_the_same(control: dict[str, Any]) -> None:
    switch = control | {"manually_disabled": True, "manual_reason": "news"}
    times = control | {"trading_start": "09:30:00", "stale_order_millis": None}
    pages: list[dict[str, Any]] = [
        {"data": [RULE], "next_cursor": "c", "watched_only": False, "symbol_control": switch},
        {"data": [RULE | {"scope": "ACCOUNT"}], "watched_only": False, "symbol_control": switch, "symbol_times": times},
    ]
    bodies = (switch, times, *pages, {"data": [KIND]})
    plain, awaited = (Platform(*(httpx.Response(200, json=body) for body in bodies)) for _ in range(2))
    with Client("key-1", account_id="a", transport=httpx.MockTransport(plain)) as client:
        kept = client.set_symbol_control("BRK/B", disabled=True, reason="news")
        changed = client.patch_symbol_time("BRK/B", trading_start="09:30:00", timezone=None, clear=["days"])
        found, kinds = client.effective_controls("BRK/B", api_key_id="k"), client.control_kinds()
        assert (found.symbol_control, found.symbol_times) == (kept, changed)

    async def ask() -> None:
        async with AsyncClient("key-1", account_id="a", transport=httpx.MockTransport(awaited)) as client:
            assert await client.set_symbol_control("BRK/B", disabled=True, reason="news") == kept
            change = client.patch_symbol_time("BRK/B", trading_start="09:30:00", timezone=None, clear=["days"])
            assert await change == changed
            assert await client.effective_controls("BRK/B", api_key_id="k") == found
            assert await client.control_kinds() == kinds

    asyncio.run(ask())
    assert (kept.manual_reason, changed.trading_start, changed.stale_order_millis) == ("news", "09:30:00", None)
    assert [rule.scope for rule in found.data] == ["PLATFORM", "ACCOUNT"]
    effective = "/v1/controls/effective?limit=100&account_id=a&symbol=BRK%2FB&api_key_id=k"
    assert (
        plain.sent
        == awaited.sent
        == [
            ("PUT", PATH, {"manually_disabled": True, "manual_reason": "news"}),
            ("PATCH", f"{PATH}/time", {"trading_start": "09:30:00", "clear": ["days"]}),
            ("GET", effective, None),
            ("GET", f"{effective}&next_cursor=c", None),
            ("GET", "/v1/controls/kinds", None),
        ]
    )


def test_a_refusal_carries_its_receipt() -> None:
    receipt = {"verdict": "REFUSED", "rules": [{"code": "SYMBOL_DISABLED"}]}
    platform = Platform(httpx.Response(422, json={"code": "controls_refused", "detail": "no", "receipt": receipt}))
    with (
        Client("key-1", account_id="a", transport=httpx.MockTransport(platform)) as client,
        pytest.raises(Invalid) as refused,
    ):
        client.buy("AAPL", Market(1))
    assert (refused.value.code, refused.value.receipt) == ("controls_refused", receipt)


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> Platform:
    platform, inside = Platform(), Client.__init__

    def connected(self: Client, **options: Any) -> None:
        inside(self, **options, transport=httpx.MockTransport(platform))

    monkeypatch.setattr(Client, "__init__", connected)
    return platform


def run(*arguments: str, code: int = 0) -> str:
    result = RUN.invoke(app, ["controls", *arguments])
    assert result.exit_code == code, result.output
    return result.stdout


def test_a_symbol_is_switched_off_and_on_by_command(platform: Platform, control: dict[str, Any]) -> None:
    platform.answers = [
        httpx.Response(200, json=control | {"manually_disabled": True, "manual_reason": "\x1b[2Jnews"}),
        httpx.Response(200, json=control | {"manually_disabled": False}),
    ]
    assert run("disable", "BRK/B", "--reason", "news") == "BRK/B is disabled: �[2Jnews (version 2)\n"
    assert run("enable", "BRK/B") == "BRK/B is enabled (version 2)\n"
    assert [body for _, _, body in platform.sent] == [
        {"manually_disabled": True, "manual_reason": "news"},
        {"manually_disabled": False},
    ]


def test_trading_times_are_set_by_command(platform: Platform, control: dict[str, Any]) -> None:
    times = {"trading_start": "09:30:00", "trading_end": "16:00:00", "timezone": "America/New_York"}
    limits = {"stale_order_millis": 5, "max_resting_millis": 60_000}
    platform.answers = [httpx.Response(200, json=control | times | limits | {"days": ["MON"]})]
    options = ["--start", "09:30:00", "--end", "16:00:00", "--timezone", "America/New_York", "--days", "mon,tue"]
    options += ["--stale-millis", "5", "--resting-millis", "60000"]
    said = run("window", "BRK/B", *options, "--clear", "days", "--clear", "timezone")
    assert said == (
        "BRK/B trades from 09:30:00 until 16:00:00 America/New_York on Mon not older than 5 ms"
        " in orders of at most 60000 ms (version 2)\n"
    )
    (sent,) = platform.sent
    assert sent == (
        "PATCH",
        f"{PATH}/time",
        times | limits | {"days": ["MON", "TUE"], "clear": ["days", "timezone"]},
    )


def test_everything_in_force_is_shown_by_scope_with_the_strictest_and_the_controls_of_the_symbol(
    platform: Platform, control: dict[str, Any]
) -> None:
    account = RULE | {"scope": "ACCOUNT", "account_id": "a", "is_strictest": True, "parameters": {"quantity": "5"}}
    unread = {"scope": "ACCOUNT", "account_id": "a", "code": "LATER", "mode": "HARD", "is_strictest": True}
    body = {"data": [RULE, account, unread], "watched_only": True, "symbol_times": control}
    platform.answers = [httpx.Response(200, json=body | {"symbol_control": control | {"manually_disabled": True}})]
    said = run("effective", "BRK/B")
    platform_part, account_part = said.split("ACCOUNT:")
    assert platform_part.startswith("PLATFORM:")
    assert ("yes" in platform_part, "yes" in account_part) == (False, True)
    for words in ("cannot be read", "BRK/B is disabled (version 2)", "BRK/B trades UTC (version 2)", "only recorded"):
        assert words in account_part
    run("effective", "--organization")
    assert json.loads(run("effective", "BRK/B", "--json"))["data"][1]["is_strictest"] is True
    assert platform.sent[1][1] == "/v1/controls/effective?limit=100"


def test_kinds_are_listed_with_their_parameters(platform: Platform) -> None:
    platform.answers = [httpx.Response(200, json={"data": [KIND]})]
    assert "value*, buffer_percent" in run("kinds")


def test_a_symbol_of_a_market_tells_when_it_opens_and_no_zone(platform: Platform, control: dict[str, Any]) -> None:
    market = {"timezone": "UTC", "calendar": "XNYS", "session": "REGULAR", "window_open_now": False}
    platform.answers = [httpx.Response(200, json=control | market | {"next_open_at": "2026-11-16T14:30:00Z"})]
    assert run("window", "BRK/B", "--calendar", "XNYS") == (
        "BRK/B trades in regular sessions of XNYS; closed now, opens 2026-11-16 14:30:00Z (version 2)\n"
    )
