"""An export as the platform would give it, made without any code of the verifier."""

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

ACCOUNT = "0192f0c1-0000-7000-8000-0000000000aa"
ORGANIZATION = "0192f0c1-0000-7000-8000-0000000000bb"
Line = dict[str, Any]


def an_id(number: int) -> str:
    return f"0192f0c1-0000-7000-8000-{number:012x}"


def a_rule(**changes: Any) -> Line:
    """A line that passes, or as changed."""
    line = {
        "code": "QTY_MAX",
        "scope": "ACCOUNT",
        "mode": "HARD",
        "verdict": "PASSED",
        "comparison": "AT_MOST",
        "limit": "1000",
        "observed": "10",
        "control_version": 3,
        "headroom": "990",
    }
    return line | changes


A_REFUSAL = {"verdict": "REFUSED", "observed": "5000", "headroom": "-4000", "would_pass": "at most 1000"}


def a_body(*rules: Line, **changes: Any) -> Line:
    body = {
        "version": 2,
        "gate": "ACCEPT",
        "verdict": "REFUSED" if any(rule["verdict"] == "REFUSED" for rule in rules) else "PASSED",
        "organization_epoch": 1,
        "account_epoch": 4,
        "evaluated_at": "2026-01-05T12:00:00+00:00",
        "command": {
            "action_type": "CREATE",
            "symbol": "AAPL",
            "order_side": "BUY",
            "order_type": "LIMIT",
            "quantity": "10",
            "limit_price": "187.50",
            "time_in_force": "DAY",
        },
        "rules": list(rules),
    }
    return body | changes


def sealed(body: Line) -> Line:
    text = json.dumps(body, separators=(",", ":"))
    return {"hash": hashlib.sha256(text.encode()).hexdigest(), "text": text}


def sealed_receipt(body: Line) -> Line:
    """A receipt as the line of its action has it."""
    return {f"receipt_{name}": value for name, value in sealed(body).items()}


def an_action(number: int, chained_from: int, body: Line, **changes: Any) -> Line:
    action = {
        "kind": "action",
        "number": number,
        "chained_from": chained_from,
        "id": an_id(number),
        "intent_id": an_id(100 + number),
        "account_id": ACCOUNT,
        "organization_id": ORGANIZATION,
        "seq": 1,
        "action_type": "CREATE",
        "symbol": "AAPL",
        "order_side": "BUY",
        "order_type": "LIMIT",
        "route_strategy": "SMART",
        "quantity": "10",
        "limit_price": "187.50",
        "time_in_force": "DAY",
        "client_reference_id": "zürich",
        "principal_type": "API_KEY",
        "principal_id": an_id(7),
        "receipt_id": an_id(200 + number),
        "created_at": f"2026-01-05T12:00:{number:02}.000250Z",
        **sealed_receipt(body),
    }
    return hashed(action | changes)


def hashed(action: Line) -> Line:
    names = (
        *("id", "intent_id", "account_id", "organization_id", "number", "seq", "action_type", "symbol", "order_side"),
        *("order_type", "route_strategy", "quantity", "limit_price", "stop_price", "time_in_force"),
        *("client_reference_id", "principal_type", "principal_id", "receipt_id", "created_at"),
    )
    parts = []
    for name in names:
        value = action.get(name)
        if name == "created_at":
            age = datetime.fromisoformat(action[name]) - datetime(1970, 1, 1, tzinfo=UTC)
            value = (age.days * 86400 + age.seconds) * 1_000_000 + age.microseconds
        text = None if value is None else str(value).encode()
        parts.append(b"-" if text is None else str(len(text)).encode() + b":" + text)
    return action | {"hash": hashlib.sha256(b"".join(parts)).hexdigest()}


def an_export() -> list[Line]:
    """Five actions in sets of one, three and one, and three refusals, one of them at a door; one receipt is old."""
    shadow = a_rule(mode="SHADOW", verdict="WOULD_REFUSE", observed="5000", would_pass="at most 1000")
    window = a_rule(
        code="OUTSIDE_TRADING_WINDOW", comparison="WITHIN", limit=[["09:30:00", "16:00:00"]], observed="12:00:00.000000"
    )
    cancel = a_body(exempt="CANCEL", command={"action_type": "CANCEL", "symbol": "AAPL"})
    actions = [
        an_action(1, 1, a_body(a_rule(), shadow)),
        an_action(2, 2, a_body(window)),
        an_action(3, 2, cancel, action_type="CANCEL", intent_id=an_id(101), seq=2),
        an_action(4, 2, {"version": 2, "gate": "ACCEPT", "verdict": "PASSED", "rules": []}, client_reference_id=None),
        an_action(5, 5, a_body(a_rule(missing="a price", observed=None))),
    ]
    refusals = [
        {"kind": "refusal", "refusal_no": number, **sealed(body)}
        for number, body in enumerate(
            (
                a_body(a_rule(**A_REFUSAL), shadow),
                a_body(a_rule(**A_REFUSAL), gate="DOOR"),
                a_body(a_rule(**A_REFUSAL | {"missing": "a price", "observed": None})),
            ),
            1,
        )
    ]
    return [headed(actions, refusals), *actions, *refusals]


def headed(actions: list[Line], refusals: list[Line]) -> Line:
    """The first line: where these lead."""
    head, refusal_head = bytes(32), bytes(32)
    for start in sorted({action["chained_from"] for action in actions}):
        chained = [action for action in actions if action["chained_from"] == start]
        joined = b"".join(bytes.fromhex(each["hash"] + each["receipt_hash"]) for each in chained)
        head = hashlib.sha256(head + joined).digest()
    for refusal in refusals:
        refusal_head = hashlib.sha256(refusal_head + bytes.fromhex(refusal["hash"])).digest()
    return {
        "kind": "account",
        "format": 1,
        "account_id": ACCOUNT,
        "organization_id": ORGANIZATION,
        "actions": len(actions),
        "chain_head": head.hex(),
        "refusals": len(refusals),
        "refusal_head": refusal_head.hex(),
    }


def rechained(lines: list[Line]) -> list[Line]:
    """With every hash made again, as one would who wants to hide a change."""
    actions = [
        hashed(line | sealed_receipt(json.loads(line["receipt_text"]))) for line in lines if line["kind"] == "action"
    ]
    refusals = [line | sealed(json.loads(line["text"])) for line in lines if line["kind"] == "refusal"]
    return [headed(actions, refusals), *actions, *refusals]


def written(lines: list[Line]) -> list[bytes]:
    return [json.dumps(line).encode() + b"\n" for line in lines]
