"""Parameters of a rule as options of the command: their types, and what is refused before anything is set."""

import json
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from openbell import Client
from openbell.cli import app

RUN = CliRunner(env={"OPENBELL_API_KEY": "key-1", "OPENBELL_ACCOUNT": "a", "NO_COLOR": None})
TEXT = {"type": "string"}
KINDS = {
    "QTY_MAX": {"quantity": TEXT},
    "RATE_ORDERS": {"count": {"type": "integer"}, "window_millis": {"type": "integer"}},
    "SIDE_NOT_ALLOWED": {
        "sides": {"type": "array", "items": {"type": "string", "enum": ["BUY", "SELL"]}},
        "no_short": {"type": "boolean"},
    },
    "RESTRICTED": {
        "list": {"type": "string", "enum": ["DENY", "ALLOW_ONLY"]},
        "symbols": {"type": "array", "items": TEXT},
    },
}


@pytest.fixture
def puts(monkeypatch: pytest.MonkeyPatch, rule: dict[str, Any]) -> list[dict[str, Any]]:
    """The parameters of every rule that was set."""
    inside, found = Client.__init__, list[dict[str, Any]]()
    kinds = [
        {
            "code": code,
            "summary": "",
            "parameters": {"properties": parameters, "required": []},
            "scopes": [],
            "gates": [],
            "counts": False,
            "settable": True,
        }
        for code, parameters in KINDS.items()
    ]

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/controls/kinds":
            return httpx.Response(200, json={"data": [*kinds, kinds[0] | {"code": "HALTED", "settable": False}]})
        found.append(json.loads(request.content)["parameters"])
        return httpx.Response(200, json=rule)

    def connected(self: Client, **options: Any) -> None:
        inside(self, **options, transport=httpx.MockTransport(answer))

    monkeypatch.setattr(Client, "__init__", connected)
    return found


def set_rule(*words: str, code: int = 0) -> str:
    result = RUN.invoke(app, ["controls", "rules", "set", *words, "--reason", "r"])
    assert result.exit_code == code, result.output
    return result.stderr


@pytest.mark.parametrize(
    ("words", "parameters"),
    [
        (["QTY_MAX", "--quantity", "100"], {"quantity": "100"}),
        (["QTY_MAX", "--quantity=0.10"], {"quantity": "0.10"}),
        (["QTY_MAX", "--quantity", "-5"], {"quantity": "-5"}),
        (["QTY_MAX", "--mode", "shadow", "--quantity", "7", "--symbol", "AAPL"], {"quantity": "7"}),
        (["QTY_MAX", '{"quantity": "9"}'], {"quantity": "9"}),
        (["RATE_ORDERS", "--count", "10", "--window-millis", "1000"], {"count": 10, "window_millis": 1000}),
        (["RATE_ORDERS", "--count", "many", "--window_millis", "1"], {"count": "many", "window_millis": 1}),
        (["SIDE_NOT_ALLOWED", "--no-short", "--sides", "buy,sell"], {"no_short": True, "sides": ["BUY", "SELL"]}),
        (["SIDE_NOT_ALLOWED", "--sides", "BUY", "--sides", "SELL"], {"sides": ["BUY", "SELL"]}),
        (["SIDE_NOT_ALLOWED", "--no-short", "false"], {"no_short": False}),
        (["RESTRICTED", "--list", "deny", "--symbols", "BRK/B,x"], {"list": "DENY", "symbols": ["BRK/B", "x"]}),
        (["RESTRICTED", "--list", "ALLOW_ONLY", "--symbols="], {"list": "ALLOW_ONLY", "symbols": []}),
        (["QTY_MAX"], {}),
    ],
    ids=str,
)
def test_options_become_parameters_of_the_type_in_the_schema(
    puts: list[dict[str, Any]], words: list[str], parameters: dict[str, Any]
) -> None:
    set_rule(*words)
    assert puts == [parameters]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["QTY_MAX", "--quantities", "1"], "QTY_MAX has no parameter --quantities; it has: --quantity."),
        (["RATE_ORDERS", "--per", "1"], "it has: --count, --window-millis."),
        (["QTY", "--quantity", "1"], "QTY is not a kind of rule; these are: QTY_MAX, RATE_ORDERS,"),
        (["HALTED", "--quantity", "1"], "HALTED is not a kind of rule"),
        (["QTY_MAX", "--quantity"], "--quantity needs a value"),
        (["RATE_ORDERS", "--count", "--window-millis", "1"], "--count needs a value"),
        (["QTY_MAX", "--quantity", "1", "--quantity", "2"], "--quantity is given twice"),
        (["QTY_MAX", "--quantity", "1", "2"], "2 belongs to no option"),
        (["QTY_MAX", "500"], "Write the parameters as options, such as --quantity 500"),
    ],
    ids=str,
)
def test_an_option_that_is_not_a_parameter_sets_nothing_and_the_error_names_the_parameters(
    puts: list[dict[str, Any]], words: list[str], message: str
) -> None:
    assert message in set_rule(*words, code=2)
    assert puts == []
