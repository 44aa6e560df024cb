"""Generates docs/brokers/register.md and register.json from the signed rows beside them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from openbell_server.adapters.broker_trials.trial_rows import is_signed

_INTRODUCTION: Final = """# Register of brokers

On this page you find what brokers do with orders and ids, as far as a retry depends on it. Each value is marked with
how it is known:

- **documented**: the broker's documentation states it; the link is the source. Without such a
  line, the pages that were read do not state it.
- **simulated**: `openbell-server brokers try` measured it of a simulator, which only shows that adapter and simulator
  agree.
- **measured**: somebody measured it with the same command in the broker's own paper environment, and signed the row.

"""
_NONE_MEASURED: Final = "**Nothing on this page has been measured in a broker's own environment yet.**\n\n"
_CONTRIBUTE: Final = """
## Contribute a row

[Try a broker](../guides/try-a-broker.md) shows the command. Add its line to `docs/brokers/measured.jsonl` and
run `make generate`: a row whose signature does not fit is refused. The row has no account and no credential: only
the broker, the date, the version, what was measured, and the public key. [The same as JSON](register.json).
"""
_ALPACA: Final = "https://alpaca.markets/docs/trading/orders/"
_ALPACA_REPLACE: Final = "https://docs.alpaca.markets/reference/replaceorderforaccount"
_ALPACA_ORDER: Final = "https://alpaca.markets/docs/broker/api-references/trading/orders/"
_TRADIER: Final = "https://documentation.tradier.com/brokerage-api"
# What a broker documents, by broker and measurement, with the source.
_DOCUMENTED: Final[dict[tuple[str, str], tuple[str, str]]] = {
    ("alpaca", "feed"): ("the stream is the recommended way to follow an order; no delay is stated", _ALPACA),
    ("alpaca", "id of a replaced order"): (
        "orders refer to each other in `replaces` and `replaced_by`",
        _ALPACA_ORDER,
    ),
    ("alpaca", "id of an order, sent again"): (
        "each order has a unique id from the client; for how long, and what a second order with it gets, is not stated",
        _ALPACA,
    ),
    ("alpaca", "look-up"): ("by the client's id or by Alpaca's", _ALPACA),
    ("alpaca", "replace"): (
        "an order that is filled before it is replaced stays, although the reply was a success; the stream shows it",
        _ALPACA_REPLACE,
    ),
    ("tradier", "id of an order, sent again"): (
        "a label of up to 255 characters; nothing is stated about a second order with the same one",
        f"{_TRADIER}/trading/place-equity-order",
    ),
    ("tradier", "look-up"): (
        "by Tradier's id, or in the list of one session or of at most a month; labels are shown on request",
        f"{_TRADIER}/accounts/get-account-orders-filtered",
    ),
    ("tradier", "replace"): (
        "type, duration and prices can be changed, the quantity cannot",
        f"{_TRADIER}/trading/change-order",
    ),
}


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """All rows; raises if one is not as it was signed, or is of a simulator and stands among the measured ones."""
    rows = []
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            row = json.loads(line)
            if not is_signed(row) or row["of"] != ("simulator" if path.stem == "simulated" else "sandbox"):
                raise ValueError(f"{path.name}, line {number}: not a row of a {path.stem} broker as it was signed")
            rows.append(row)
    return rows


def register(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry for each broker and measurement, with every value and how it is known."""
    entries: dict[tuple[str, str], dict[str, Any]] = {}
    for (broker, name), (text, source) in _DOCUMENTED.items():
        entry = entries.setdefault((broker, name), {"broker": broker, "name": name, "values": []})
        entry["values"].append({"mark": "documented", "value": text, "source": source})
    for row in rows:
        mark = "simulated" if row["of"] == "simulator" else "measured"
        for each in row["measurements"]:
            key = (row["broker"], each["name"])
            entry = entries.setdefault(key, {"broker": row["broker"], "name": each["name"], "values": []})
            entry["values"].append(
                {
                    "mark": mark,
                    "value": each["measured"],
                    "evidence": each["evidence"],
                    "at": row["measured_at"],
                    "public_key": row["public_key"],
                }
            )
    return [entries[key] for key in sorted(entries)]


def register_page(entries: list[dict[str, Any]]) -> str:
    marks = {value["mark"] for entry in entries for value in entry["values"]}
    page = [_INTRODUCTION, "" if "measured" in marks else _NONE_MEASURED]
    for broker in dict.fromkeys(entry["broker"] for entry in entries):
        page.append(f"## {broker}\n\n| | value | how it is known |\n|---|---|---|\n")
        page += [
            _line(entry["name"], value) for entry in entries if entry["broker"] == broker for value in entry["values"]
        ]
        page.append("\n")
    return "".join(page).rstrip("\n") + "\n" + _CONTRIBUTE


def _line(name: str, value: dict[str, Any]) -> str:
    evidence = f" ({value['evidence']})" if value.get("evidence") else ""
    text = f"{value['value']}{evidence}".replace("|", "\\|")
    known = f"[documented]({value['source']})" if "source" in value else f"{value['mark']}, {value['at'][:10]}"
    return f"| {name} | {text} | {known} |\n"
