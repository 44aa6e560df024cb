"""Parameters of rules as people write them: what is taken, and that a refusal shows what would be."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.controls.catalogue import CATALOGUE
from openbell_server.domain.controls.evaluate import evaluate
from openbell_server.domain.controls.facts import STATEFUL, Facts, Gate
from openbell_server.domain.controls.kinds.day_values import DayValue
from openbell_server.domain.controls.kinds.exposure import OpenOrders, Per
from openbell_server.domain.controls.kinds.increments import Tick
from openbell_server.domain.controls.kinds.lists import SYMBOLS_SHOWN_MAX, ListKind, Sides, SymbolList
from openbell_server.domain.controls.kinds.prices import Collar, OrderValue
from openbell_server.domain.controls.kinds.repeats import SubmitRate, Window
from openbell_server.domain.controls.kinds.switches import Switch
from openbell_server.domain.controls.rules import SwitchState
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.identifiers import Symbol, canonical_symbol, share_class_symbol
from openbell_server.domain.orders.order_terms import OrderSide
from support.builders.control_cases import CASES
from support.builders.control_commands import NOW, SPELLINGS, Case, a_book, a_rule, asks, spelled_around

PAGE = Path(__file__).parents[4] / "docs" / "control-kinds.md"
VALUE = {"value": "1", "currency": "USD"}
COLLAR = {"up_percent": "1", "down_percent": "1"}
WRONG: list[tuple[str, dict[str, Any]]] = [
    ("SWITCH", {}),
    ("SWITCH", {"status": "active"}),
    ("SWITCH", {"status": ["ACTIVE"]}),
    ("SWITCH", {"status": "ACTIVE", "cancel_working": 1}),
    ("SYMBOL_DISABLED", {"manually_disabled": "true"}),
    ("SYMBOL_DISABLED", {"manually_disabled": True, "manual_reason": 1}),
    ("RESTRICTED", {"list": "DENY"}),
    ("RESTRICTED", {"list": "allow", "symbols": []}),
    ("RESTRICTED", {"list": "DENY", "symbols": "AAPL"}),
    ("RESTRICTED", {"list": "DENY", "symbols": [1]}),
    ("RESTRICTED", {"list": "DENY", "symbols": [" "]}),
    ("RESTRICTED", {"list": "DENY", "symbols": ["A" * 33]}),
    ("RESTRICTED", {"list": "DENY", "symbols": ["ſ"]}),
    ("RESTRICTED", {"list": "DENY", "symbols": ["A"] * 10_001}),
    ("SIDE_NOT_ALLOWED", {}),
    ("SIDE_NOT_ALLOWED", {"sides": []}),
    ("SIDE_NOT_ALLOWED", {"sides": ["BUY", "buy"]}),
    ("SIDE_NOT_ALLOWED", {"no_short": None}),
    ("QTY_MAX", {"quantity": 1}),
    ("QTY_MAX", {"quantity": "0"}),
    ("QTY_MIN", {"quantity": "1", "more": "1"}),
    ("NOTIONAL_MAX", {"value": "1"}),
    ("NOTIONAL_MAX", {**VALUE, "value": "-1"}),
    ("NOTIONAL_MAX", {**VALUE, "value": 1}),
    ("NOTIONAL_MAX", {**VALUE, "currency": "usd"}),
    ("NOTIONAL_MAX", {**VALUE, "buffer_percent": "-1"}),
    ("NOTIONAL_MAX", {**VALUE, "buffer_percent": "10000.1"}),
    ("NOTIONAL_MAX", {**VALUE, "ref_max_age_millis": 0}),
    ("NOTIONAL_MAX", {**VALUE, "ref_max_age_millis": 3_600_001}),
    ("DAY_NOTIONAL_MAX", {"value": "1"}),
    ("DAY_NOTIONAL_MAX", VALUE | {"timezone": "Mars/Olympus"}),
    ("GROSS_MAX", {"currency": "USD"}),
    ("BUYING_POWER", {"keep": "1"}),
    ("BUYING_POWER", {"currency": "USD", "keep": "-1"}),
    ("LOSS_MAX", VALUE | {"on_breach": "ACTIVE"}),
    ("TICK", {"tick": "0"}),
    ("TICK", {"lot": "1"}),
    ("LOT", {"lot": 1}),
    ("PRICE_COLLAR", {"up_percent": "1"}),
    ("PRICE_COLLAR", {**COLLAR, "down_percent": "100.1"}),
    ("PRICE_COLLAR", {**COLLAR, "up_percent": 1}),
    ("PRICE_COLLAR", {**COLLAR, "passive_percent": "NaN"}),
    ("PRICE_COLLAR", {**COLLAR, "spread_percent": "1e3"}),
    ("PRICE_COLLAR", {**COLLAR, "ref_max_age_millis": True}),
    ("DUPLICATE", {"window_millis": 0}),
    ("DUPLICATE", {"window_millis": 60_001}),
    ("DUPLICATE", {"window_millis": 1.0}),
    ("RATE_ORDERS", {"count": 1}),
    ("RATE_ORDERS", {"count": 1_001, "window_millis": 1}),
    ("RATE_ORDERS", {"count": 1, "window_millis": 3_600_001}),
    ("RATE_ORDERS", {"count": True, "window_millis": 1}),
    ("OPEN_ORDERS_MAX", {"count": 0}),
    ("OPEN_ORDERS_MAX", {"count": 1, "per": "broker"}),
    ("POSITION_MAX", {"quantity": "1e3"}),
    ("POSITION_MAX", {}),
]


@pytest.mark.parametrize(
    ("code", "parameters", "meant"),
    [
        ("SWITCH", {"status": "HALTED"}, Switch(SwitchState.HALTED, cancel_working=False)),
        ("SWITCH", {"status": "ACTIVE", "cancel_working": True}, Switch(SwitchState.ACTIVE, cancel_working=True)),
        ("SIDE_NOT_ALLOWED", {"sides": ["BUY"]}, Sides(frozenset({OrderSide.BUY}), no_short=False)),
        ("SIDE_NOT_ALLOWED", {"no_short": False}, Sides(frozenset(OrderSide), no_short=False)),
        ("NOTIONAL_MAX", VALUE, OrderValue(Decimal(1), "USD", Decimal(5), 15_000)),
        ("DAY_NOTIONAL_MAX", VALUE, DayValue(Decimal(1), "USD", Decimal(5), 15_000, None)),
        ("PRICE_COLLAR", COLLAR, Collar(Decimal(1), Decimal(1), None, None, 15_000)),
        ("DUPLICATE", {}, Window(1_000)),
        ("DUPLICATE", {"window_millis": 60_000}, Window(60_000)),
        ("RATE_ORDERS", {"count": 1_000, "window_millis": 3_600_000}, SubmitRate(1_000, 3_600_000)),
        ("OPEN_ORDERS_MAX", {"count": 1}, OpenOrders(1, Per.ACCOUNT)),
        ("TICK", {}, Tick(None)),
    ],
)
def test_what_is_left_out_has_its_default(code: str, parameters: dict[str, Any], meant: object) -> None:
    assert CATALOGUE[code].decode(parameters) == meant


@pytest.mark.parametrize(("code", "parameters"), WRONG)
def test_wrong_parameters_are_refused_where_they_stand(code: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidCommand) as refusal:
        CATALOGUE[code].decode(parameters)
    assert refusal.value.errors[0].pointer.startswith("/parameters")
    assert "must be" in refusal.value.detail


@pytest.mark.parametrize("code", CATALOGUE)
def test_a_name_that_nobody_would_read_is_refused(code: str) -> None:
    parameters = next(case.parameters for case in CASES if case.code == code)
    CATALOGUE[code].decode(parameters)
    with pytest.raises(InvalidCommand):
        CATALOGUE[code].decode({**parameters, "no_such": "1"})


@pytest.mark.parametrize("code", CATALOGUE)
def test_the_schema_and_the_page_have_the_parameters_that_are_taken(code: str) -> None:
    shape = CATALOGUE[code].shape
    schema, page = shape.schema(), PAGE.read_text()
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    for case in CASES:
        if case.code == code:
            assert validator.is_valid(case.parameters)
            assert validator.is_valid(shape.encode(CATALOGUE[code].decode(case.parameters)))
    for wrong in ({"no_such": "1"}, *(each for of, each in WRONG if of == code and not set(each) <= set(shape.forms))):
        assert not validator.is_valid(wrong)
    if CATALOGUE[code].settable:
        assert [name for name in (code, *shape.forms) if name not in page] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.code} {case.name}")
def test_parameters_are_written_as_they_are_read(case: Case) -> None:
    kind = CATALOGUE[case.code]
    decoded = kind.decode(case.parameters)
    assert kind.decode(kind.shape.encode(decoded)) == decoded


@pytest.mark.parametrize("code", CATALOGUE)
def test_a_kind_counts_if_it_needs_what_is_read_under_the_account_s_lock(code: str) -> None:
    kind = CATALOGUE[code]
    needed = {
        need for case in CASES if case.code == code for need in kind.needs(kind.decode(case.parameters), case.asked)
    }
    assert bool(needed & STATEFUL) is kind.counts


def respelled(kind: ListKind, *entries: str) -> SymbolList:
    parameters = CATALOGUE["RESTRICTED"].decode({"list": kind, "symbols": list(entries)})
    assert isinstance(parameters, SymbolList)
    return parameters.respelled(lambda text: share_class_symbol(text, "."))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_of_a_symbol_is_the_same_entry(spelling: str) -> None:
    assert respelled(ListKind.DENY, spelling).symbols == {"BRK.B"}
    assert respelled(ListKind.ALLOW_ONLY, spelling).symbols == {"BRK.B"}
    assert respelled(ListKind.DENY, *SPELLINGS).symbols == {"BRK.B"}


def test_what_is_no_symbol_at_the_broker_allows_nothing_and_stays_denied() -> None:
    assert respelled(ListKind.ALLOW_ONLY, "btc_usd", "AAPL").symbols == {"AAPL"}
    assert respelled(ListKind.DENY, "btc_usd", "AAPL").symbols == {"BTC_USD", "AAPL"}


@pytest.mark.parametrize("broker", BROKERS)
def test_no_spelling_of_a_symbol_gets_around_a_control(broker: str) -> None:
    tried, around = spelled_around(BROKERS[broker])
    assert tried
    assert around == []


def test_a_long_list_is_in_the_receipt_by_what_decided_its_length_and_its_digest() -> None:
    symbols = [f"S{number}" for number in range(SYMBOLS_SHOWN_MAX + 1)]
    digests = set()
    for kind, symbol, limit, refuses in (
        ("DENY", "S7", ["S7"], True),
        ("DENY", "AAPL", [], False),
        ("ALLOW_ONLY", "S7", ["S7"], False),
        ("ALLOW_ONLY", "AAPL", [], True),
    ):
        rule = a_rule("RESTRICTED", {"list": kind, "symbols": symbols})
        [line] = evaluate(a_book(rule), asks(symbol=Symbol(symbol)), Facts(now=NOW), Gate.ACCEPT)
        assert (line.limit, line.refuses, line.inputs["symbols"]) == (limit, refuses, "51")
        digests.add(line.inputs["symbols_sha256"])
    assert len(digests) == 1


def test_a_symbol_of_the_plain_spelling_is_only_itself() -> None:
    parameters = SymbolList(ListKind.DENY, frozenset({"BRK.B"})).respelled(canonical_symbol)
    assert parameters.symbols == {"BRK.B"}
