"""Every receipt that our rules write passes the verifier, which knows none of them: it repeats what they say."""

from dataclasses import replace
from decimal import Decimal

import pytest

from openbell.receipts.comparisons import flaws_of_text
from openbell_server.application.intents.capability_checks import capability_findings
from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls.findings import Finding, Mode, Verdict
from openbell_server.domain.controls.receipts import Evaluation, Receipt, cancel_facts, command_facts, receipt_of
from openbell_server.domain.controls.symbol_controls import resting_finding
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders.intents import CreateIntent
from openbell_server.domain.orders.order_terms import OrderSide, OrderSpec, OrderType, RouteStrategy, TimeInForce
from support.builders.control_cases import CASES
from support.builders.control_commands import NOW, Case, a_book, judge


def receipt_with(case: Case, findings: list[Finding], *, watched: bool = False) -> Receipt:
    evaluation = Evaluation(
        command=command_facts(case.asked), evaluated_at=NOW, findings=findings, watched_only=watched
    )
    return receipt_of(a_book(), evaluation)


@pytest.mark.parametrize("environment", list(Environment))
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("watched", [False, True])
def test_every_case_of_the_catalogue_can_be_repeated_from_its_receipt(
    environment: Environment, mode: Mode, watched: bool
) -> None:
    wrong, lines = [], 0
    for case in CASES:
        findings = judge(case, environment=environment, mode=mode, watched=watched)
        lines += len(findings)
        wrong += [
            (case.code, case.name, flaw) for flaw in flaws_of_text(receipt_with(case, findings, watched=watched).text)
        ]
    assert wrong == []
    assert lines > 100


def test_a_verdict_that_was_turned_around_is_found_in_every_case() -> None:
    missed = []
    for case in CASES:
        for finding in judge(case):
            turned = Verdict.REFUSED if finding.verdict is Verdict.PASSED else Verdict.PASSED
            words = None if turned is Verdict.PASSED else "something"
            receipt = receipt_with(case, [replace(finding, verdict=turned, would_pass=words)])
            # What a missing input means was the rule's to say, and is not in the line.
            if finding.missing is None and not list(flaws_of_text(receipt.text)):
                missed.append((case.code, case.name))
    assert missed == []


@pytest.mark.parametrize("broker", BROKERS.values(), ids=BROKERS)
def test_what_a_broker_lacks_can_be_repeated(broker: object) -> None:
    for quantity in ("1", "0.5", "0.000000000000000001"):
        for kind in OrderType:
            for life in TimeInForce:
                spec = OrderSpec(
                    order_type=kind,
                    quantity=Decimal(quantity),
                    limit_price=Decimal(1) if "LIMIT" in kind else None,
                    stop_price=Decimal(1) if "STOP" in kind else None,
                    time_in_force=life,
                )
                command = CreateIntent(
                    symbol=Symbol("AAPL"), order_side=OrderSide.BUY, route_strategy=RouteStrategy.SMART, spec=spec
                )
                found = capability_findings(broker, command)  # type: ignore[arg-type]
                for watched in (False, True):
                    assert list(flaws_of_text(receipt_with(CASES[0], found, watched=watched).text)) == []


def test_why_the_platform_cancels_by_itself_can_be_repeated() -> None:
    finding = resting_finding(1_000, 2_000, 3)
    evaluation = Evaluation(command=cancel_facts("AAPL"), evaluated_at=NOW, findings=[finding], exempt="CANCEL")
    assert list(flaws_of_text(receipt_of(a_book(), evaluation).text)) == []
