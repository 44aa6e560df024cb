"""The tools: what they cost to list, what they accept, and how they are marked."""

import json
from pathlib import Path

import msgspec
import pytest

from openbell_mcp.catalogue import TOOLS, Entry
from openbell_mcp.inputs import PlaceOrder

ROOT = Path(__file__).parents[2]
TOKENS_MAX = 4000
SIGNS_PER_TOKEN = 4
ORDER = {"symbol": "AAPL", "side": "BUY", "order_type": "MARKET", "quantity": "10", "idempotency_key": "k"}


def test_listing_the_tools_costs_less_than_4000_tokens() -> None:
    listed = [entry.as_tool(name).model_dump(by_alias=True, exclude_none=True) for name, entry in TOOLS.items()]
    assert len(json.dumps(listed)) / SIGNS_PER_TOKEN < TOKENS_MAX


def test_every_tool_refuses_arguments_that_it_does_not_know() -> None:
    for name, entry in TOOLS.items():
        assert entry.as_tool(name).input_schema["additionalProperties"] is False
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"account_id": "another"}, entry.arguments)


@pytest.mark.parametrize(
    "quantity", [10, 10.0, "1e9", "-1", "+1", "１０", "", "0x10", "1" * 19, " 10", "NaN", None, True]
)
def test_an_amount_is_a_plain_decimal_string(quantity: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(ORDER | {"quantity": quantity}, PlaceOrder)


def test_null_means_that_an_argument_is_left_out() -> None:
    assert msgspec.convert(ORDER | {"limit_price": None}, PlaceOrder) == msgspec.convert(ORDER, PlaceOrder)


def test_the_page_lists_every_tool_as_it_is() -> None:
    page = (ROOT / "docs/agents.md").read_text()
    listed = [line for line in page.splitlines() if line.startswith("| `") and line.count("|") == 5]
    assert listed == [row(name, entry) for name, entry in TOOLS.items()]


def row(name: str, entry: Entry) -> str:
    schema = entry.as_tool(name).input_schema
    needed = ", ".join(f"`{each}`" for each in schema["required"])
    optional = ", ".join(f"`{each}`" for each in schema["properties"] if each not in schema["required"])
    arguments = " ".join(filter(None, (needed, f"[{optional}]" if optional else "")))
    return f"| `{name}` | {entry.description} | {arguments or '–'} | {'no' if entry.reads else 'yes'} |"


def test_only_the_tools_that_send_commands_change_something() -> None:
    changing = {name for name, entry in TOOLS.items() if not entry.reads}
    assert changing == {"place_order", "replace_order", "cancel_order", "halt"}
    for name, entry in TOOLS.items():
        hints = entry.as_tool(name).annotations
        assert hints is not None
        assert (hints.read_only_hint, hints.destructive_hint) == (name not in changing, name in changing)
        has_key = "idempotency_key" in entry.as_tool(name).input_schema["required"]
        assert has_key is (name in changing - {"halt"})
