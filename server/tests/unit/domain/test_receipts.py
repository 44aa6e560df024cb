"""Receipts: what they say of a command, in which order, and what they leave out."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls.facts import CommandFacts, Gate
from openbell_server.domain.controls.findings import CONTROL_INPUT_UNAVAILABLE, Comparison, Finding, Scope, Verdict
from openbell_server.domain.controls.receipts import Evaluation, cancel_facts, command_facts, receipt_of
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, Terms, TimeInForce

NOON = datetime(2026, 3, 6, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Epochs:
    organization_epoch: int = 3
    account_epoch: int = 5


def a_finding(verdict: Verdict, code: str = "QTY_MAX", missing: str | None = None) -> Finding:
    return Finding(
        code=code,
        scope=Scope.ACCOUNT,
        verdict=verdict,
        comparison=Comparison.AT_MOST,
        limit="10",
        observed=None if missing else "12",
        control_version=2,
        missing=missing,
    )


def test_a_receipt_says_what_was_asked_and_a_replace_beside_what_the_order_was() -> None:
    day = TimeInForce.DAY
    asked = CommandFacts(
        action_type=ActionType.REPLACE,
        symbol=Symbol("AAPL"),
        order_side=OrderSide.BUY,
        order_type=OrderType.LIMIT,
        terms=Terms(quantity=Decimal("12.50"), limit_price=Decimal("1.10"), time_in_force=day),
        environment=Environment.PAPER,
        api_key_id="k",
        before=Terms(quantity=Decimal(10), limit_price=Decimal(1), time_in_force=day),
        filled_quantity=Decimal("2.5"),
        deadline=NOON,
        allow_duplicate=True,
    )
    evaluation = Evaluation(command=command_facts(asked), evaluated_at=NOON, gate=Gate.DOOR, watched_only=True)
    receipt = receipt_of(Epochs(), evaluation)
    assert json.loads(receipt.text) == {
        "version": 2,
        "gate": "DOOR",
        "verdict": "PASSED",
        "organization_epoch": 3,
        "account_epoch": 5,
        "evaluated_at": "2026-03-06T12:00:00.000000Z",
        "command": {
            "action_type": "REPLACE",
            "symbol": "AAPL",
            "order_side": "BUY",
            "order_type": "LIMIT",
            "quantity": "12.50",
            "limit_price": "1.10",
            "time_in_force": "DAY",
            "deadline": "2026-03-06T12:00:00.000000Z",
            "allow_duplicate": True,
            "api_key_id": "k",
            "before": {"quantity": "10", "limit_price": "1", "time_in_force": "DAY", "filled_quantity": "2.5"},
        },
        "watched_only": True,
        "rules": [],
    }


def test_one_refusal_refuses_and_each_reason_is_told_once() -> None:
    findings = [
        a_finding(Verdict.PASSED, "LOT"),
        a_finding(Verdict.WOULD_REFUSE, "TICK"),
        a_finding(Verdict.REFUSED),
        a_finding(Verdict.REFUSED),
        a_finding(Verdict.REFUSED, "POSITION_MAX", missing="the position"),
    ]
    receipt = receipt_of(Epochs(), Evaluation(command=cancel_facts("AAPL"), evaluated_at=NOON, findings=findings))
    assert (receipt.verdict, receipt.refusals) == ("REFUSED", ("QTY_MAX", CONTROL_INPUT_UNAVAILABLE))
    lines = json.loads(receipt.text)["rules"]
    assert [line["code"] for line in lines] == ["LOT", "TICK", "QTY_MAX", "QTY_MAX", "POSITION_MAX"]
    assert [("missing" in line, "headroom" in line, "inputs" in line) for line in lines[3:]] == [
        (False, False, False),
        (True, False, False),
    ]
