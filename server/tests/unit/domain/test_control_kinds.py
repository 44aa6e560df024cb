"""Every kind of control by its table of cases: live and paper, hard and shadow."""

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls.catalogue import CATALOGUE
from openbell_server.domain.controls.evaluate import evaluate
from openbell_server.domain.controls.facts import CommandFacts, Gate
from openbell_server.domain.controls.findings import CONTROL_INPUT_UNAVAILABLE, Mode, Verdict
from openbell_server.domain.controls.rules import OnMissing
from support.builders.control_cases import CASES
from support.builders.control_commands import BUY, SELL, Case, a_book, a_rule, asks, holds, judge, repeated

MISSING = [case for case in CASES if case.what == "missing"]
REFUSED = [case for case in CASES if not case.passes]

TOMORROW = "from 2026-03-07T15:00:00.000000Z on, when the next day begins"


def named(case: Case) -> str:
    return f"{case.code} {case.what}: {case.name}"


@pytest.mark.parametrize("code", CATALOGUE)
def test_every_kind_has_a_case_that_passes_one_that_is_refused_and_an_edge(code: str) -> None:
    assert {case.what for case in CASES if case.code == code} >= {"pass", "refuse", "edge"}


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_rule_decides_its_case(case: Case) -> None:
    [line] = judge(case)
    assert line.verdict is (Verdict.PASSED if case.passes else Verdict.REFUSED)
    assert line.code == (case.found_as or case.code)
    assert (line.missing is not None) is (case.what == "missing")
    if case.limit is not ...:
        assert line.limit == case.limit
    if case.observed is not ...:
        assert line.observed == case.observed


@pytest.mark.parametrize("case", REFUSED, ids=named)
def test_a_refusal_says_what_would_pass(case: Case) -> None:
    [line] = judge(case)
    assert line.would_pass
    assert line.control_version == 3
    if case.what != "missing":
        assert line.limit is not None
        assert line.observed is not None
        assert line.reason == line.code
    if line.headroom is not None:
        assert line.headroom.startswith("-")


@pytest.mark.parametrize("case", [case for case in CASES if case.passes], ids=named)
def test_what_passes_needs_nothing_more(case: Case) -> None:
    [line] = judge(case)
    assert line.would_pass is None
    assert not (line.headroom or "").startswith("-")


@pytest.mark.parametrize("case", REFUSED, ids=named)
def test_a_shadow_rule_and_a_watched_book_only_say_what_they_would_refuse(case: Case) -> None:
    for lines in (judge(case, mode=Mode.SHADOW), judge(case, watched=True)):
        assert [line.verdict for line in lines] == [Verdict.WOULD_REFUSE]
        assert lines[0].would_pass


@pytest.mark.parametrize("case", [case for case in CASES if case.what != "missing"], ids=named)
def test_paper_and_on_missing_change_nothing_where_all_is_known(case: Case) -> None:
    hard = judge(case)[0].verdict
    for on_missing in (None, *OnMissing):
        assert judge(case, environment=Environment.PAPER, on_missing=on_missing)[0].verdict is hard


@pytest.mark.parametrize("case", MISSING, ids=named)
def test_a_missing_input_refuses_on_live_and_passes_on_paper_unless_the_rule_says_otherwise(case: Case) -> None:
    expected = {
        (Environment.LIVE, None): Verdict.REFUSED,
        (Environment.PAPER, None): Verdict.PASSED,
        (Environment.LIVE, OnMissing.ALLOW): Verdict.PASSED,
        (Environment.PAPER, OnMissing.DENY): Verdict.REFUSED,
    }
    for (environment, on_missing), verdict in expected.items():
        [line] = judge(case, environment=environment, on_missing=on_missing)
        assert line.verdict is (Verdict.REFUSED if case.denies_always else verdict)
        assert line.reason == CONTROL_INPUT_UNAVAILABLE
        assert line.observed is None


@pytest.mark.parametrize("case", [case for case in CASES if case.what != "missing"], ids=named)
def test_anybody_can_repeat_the_comparison(case: Case) -> None:
    [line] = judge(case)
    assert repeated(line) is case.passes


ADVISED = {
    "quantity": re.compile(r"a quantity of (?:at (?:most|least) )?([0-9.]+)"),
    "limit_price": re.compile(r"a limit_price of (?:at (?:most|least) )?([0-9.]+)"),
    "stop_price": re.compile(r"a stop_price of (?:at (?:most|least) )?([0-9.]+)"),
}


@pytest.mark.parametrize("case", REFUSED, ids=named)
def test_what_would_pass_does_pass(case: Case) -> None:
    sentence = str(judge(case)[0].would_pass)
    advised: dict[str, Any] = {
        name: Decimal(match[1]) for name, pattern in ADVISED.items() if (match := pattern.search(sentence))
    }
    if advised:
        asked = replace(case.asked, terms=replace(case.asked.terms, **advised))
        assert not any(line.refuses for line in judge(replace(case, asked=asked)))


@pytest.mark.parametrize(
    ("code", "name", "sentence"),
    [
        ("POSITION_MAX", "a hair over it", "a quantity of at most 9.9"),
        ("POSITION_MAX", "of a REPLACE what may still fill, too long", "a quantity of at most 59"),
        ("SWITCH", "a REPLACE of which 8 may still fill, of 7.9", "a quantity of at most 11.9"),
        ("SWITCH", "sells while flat", "no SELL of AAPL: nothing is left that it would reduce"),
        (
            "OPEN_ORDERS_MAX",
            "one more of the side",
            "once at most 19 orders of the symbol AAPL on the side BUY are open",
        ),
        ("SELF_MATCH", "a limit that crosses", "a limit_price below 100.5"),
        ("SELF_MATCH", "a SELL that crosses", "a limit_price above 100.5"),
        ("SELF_MATCH", "a SELL_SHORT at the market", "once no BUY of AAPL is open that could trade with it"),
        ("SELF_MATCH", "an order there has no limit", "once no SELL of AAPL is open that could trade with it"),
        (
            "DAY_NOTIONAL_MAX",
            "a hair above it",
            f"a value of at most 99.99 USD: at 10 a quantity of at most 9; or {TOMORROW}",
        ),
        ("DAY_NOTIONAL_MAX", "nothing is left", TOMORROW),
        (
            "DAY_NOTIONAL_MAX",
            "a REPLACE with too high a price",
            f"a value of at most 599.5 USD: at 60 a quantity of at most 9; or {TOMORROW}",
        ),
        ("GROSS_MAX", "a hair above it", "a quantity of at most 9"),
        ("GROSS_MAX", "on top of what is held", "a quantity of at most 40"),
        ("GROSS_MAX", "a SELL_SHORT as well", "a quantity of at most 60"),
        ("BUYING_POWER", "a cent more than there is", "a quantity of at most 9"),
        ("BUYING_POWER", "an account that owes", "once the account has at least 15 USD more"),
        ("BUYING_POWER", "a SELL_SHORT", "a quantity of at most 10"),
        ("BUYING_POWER", "a SELL of what another order sells already", "a quantity of at most 10"),
        ("TICK", "between ticks", "a limit_price of 1.23 or 1.24"),
        ("TICK", "below one tick", "a limit_price of 0.01"),
        ("LOT", "a part of what is whole", "a quantity of 1 or 2"),
        ("NOTIONAL_MAX", "a limit above", "a value of at most 1000 USD: at 101 a quantity of at most 9"),
        (
            "NOTIONAL_MAX",
            "a SELL far below the market",
            "a value of at most 1000 USD: at 105 a quantity of at most 9",
        ),
        (
            "NOTIONAL_MAX",
            "its own price too high without a market's",
            "a value of at most 1000 USD, once there is a price of AAPL that is at most 15000 ms old",
        ),
        (
            "NOTIONAL_MAX",
            "too much even for a share",
            "a value of at most 1000 USD, once there is the instrument AAPL, with its currency and multiplier",
        ),
        ("PRICE_COLLAR", "a BUY above it", "a limit_price of at most 110"),
        (
            "RATE_ORDERS",
            "the fourth",
            "from 2026-03-06T15:30:00.998000Z on, if no other is judged until then",
        ),
    ],
)
def test_a_refusal_names_the_number_that_would_pass(code: str, name: str, sentence: str) -> None:
    [case] = [case for case in CASES if (case.code, case.name) == (code, name)]
    assert judge(case)[0].would_pass == sentence


def test_a_full_position_says_that_no_quantity_passes() -> None:
    [case] = [case for case in CASES if case.name == "sells that work do not make room"]
    assert "no BUY of AAPL until" in str(judge(case)[0].would_pass)


def test_inputs_have_their_times() -> None:
    dated = {
        "POSITION_MAX": "position_as_of",
        "PRICE_COLLAR": "reference_as_of",
        "DUPLICATE": "newest_equal_order_at",
    }
    for code, name in dated.items():
        refused = [case for case in CASES if case.code == code and case.what == "refuse"]
        assert refused
        for case in refused:
            assert judge(case)[0].inputs[name].endswith("Z")
    [converted] = [case for case in CASES if case.name == "another currency"]
    inputs = judge(converted)[0].inputs
    assert (inputs["exchange_rate"], inputs["exchange_rate_as_of"]) == ("1.25", "2026-03-06T15:30:00.000000Z")


@pytest.mark.parametrize(
    ("name", "prices"),
    [
        ("a limit above", {"limit_price": "101", "price": "101"}),
        ("a stop limit BUY by its limit, above its stop", {"limit_price": "100.01", "price": "100.01"}),
        (
            "a SELL far below the market",
            {"limit_price": "0.01", "reference_price": "100", "buffer_percent": "5", "price": "105"},
        ),
        (
            "a stop limit SELL by its stop",
            {"limit_price": "1", "stop_price": "96", "reference_price": "1", "buffer_percent": "5", "price": "100.8"},
        ),
        (
            "its own stop too high without a market's",
            {"stop_price": "96", "reference": "not known", "buffer_percent": "5", "price": "100.8"},
        ),
    ],
)
def test_a_receipt_lists_the_prices_that_an_order_was_valued_by(name: str, prices: dict[str, str]) -> None:
    [case] = [case for case in CASES if (case.code, case.name) == ("NOTIONAL_MAX", name)]
    inputs = judge(case)[0].inputs
    assert {key: inputs[key] for key in inputs if "price" in key or key in {"buffer_percent", "reference"}} == prices
    assert ("reference_as_of" in inputs) is ("reference_price" in inputs)


@pytest.mark.parametrize(
    ("asked", "position"), [(asks(SELL, "200"), "100"), (asks(SELL), "500"), (asks(BUY, "700"), "-500")]
)
def test_an_order_that_cannot_make_the_position_larger_meets_no_limit_on_all_positions(
    asked: CommandFacts, position: str
) -> None:
    rule = a_rule("GROSS_MAX", {"value": "1", "currency": "USD"})
    assert evaluate(a_book(rule), asked, replace(holds(position), others=[]), Gate.ACCEPT) == []
    [found] = evaluate(a_book(rule), asked, replace(holds("0"), others=[]), Gate.ACCEPT)
    assert found.refuses
