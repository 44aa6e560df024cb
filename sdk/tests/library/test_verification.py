"""An export proves itself offline: the clean one passes, and whatever is changed in it is found and named."""

import copy
import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbell.receipts.comparisons import NotComparable, compare, flaws_of_body
from openbell.receipts.verification import Verification, verify_export, verify_receipt
from support.builders.receipt_exports import (
    A_REFUSAL,
    Line,
    a_body,
    a_rule,
    an_action,
    an_export,
    rechained,
    sealed,
    sealed_receipt,
    written,
)


def verified(lines: list[Line]) -> Verification:
    return verify_export(written(lines))


def said(result: Verification) -> str:
    return "\n".join(str(flaw) for flaw in result.flaws)


def test_a_clean_export_holds_and_says_what_was_proven() -> None:
    lines = an_export()
    result = verified(lines)
    assert (said(result), result.holds) == ("", True)
    assert (result.actions, result.refusals) == (5, 3)
    assert (result.chain_head, result.refusal_head) == (lines[0]["chain_head"], lines[0]["refusal_head"])


def test_an_account_without_anything_holds() -> None:
    assert verified(rechained([])).holds


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a line."""
    if isinstance(value, dict):
        for key, inside in value.items():
            yield from leaves(inside, (*path, key))
    else:
        yield path


def another(value: Any) -> Any:
    """Something else of the same kind."""
    if isinstance(value, int):
        return value + 1
    if value is None:
        return "x"
    last = value[-1:]
    return value[:-1] + ("1" if last != "1" else "2")


def changed(lines: list[Line], place: int, path: tuple[Any, ...], change: Callable[[Any], Any]) -> list[Line]:
    tampered: list[Line] = copy.deepcopy(lines)
    inside: Any = tampered[place]
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = change(inside[path[-1]])
    return tampered


EVERY_FIELD = [(place, path) for place, line in enumerate(an_export()) for path in leaves(line)]


@pytest.mark.parametrize(("place", "path"), EVERY_FIELD, ids=str)
def test_a_change_of_any_field_of_any_line_is_found(place: int, path: tuple[Any, ...]) -> None:
    assert not verified(changed(an_export(), place, path, another)).holds


@pytest.mark.parametrize(("place", "path"), EVERY_FIELD, ids=str)
def test_a_field_that_was_taken_away_is_found(place: int, path: tuple[Any, ...]) -> None:
    tampered = copy.deepcopy(an_export())
    inside: Any = tampered[place]
    for key in path[:-1]:
        inside = inside[key]
    if inside.pop(path[-1]) is not None:
        assert not verified(tampered).holds


def test_the_fields_that_are_changed_are_many() -> None:
    assert len(EVERY_FIELD) >= 100


@given(st.data())
def test_whatever_byte_is_changed_is_found_unless_it_means_the_same(data: st.DataObject) -> None:
    clean = b"".join(written(an_export()))
    place = data.draw(st.integers(0, len(clean) - 1))
    byte = data.draw(st.integers(32, 126))
    tampered = clean[:place] + bytes([byte]) + clean[place + 1 :]
    if _meaning(tampered) != _meaning(clean):
        assert not verify_export(tampered.splitlines(keepends=True)).holds


def _meaning(text: bytes) -> list[Any]:
    return [_value(line) for line in text.splitlines()]


def _value(line: bytes) -> Any:
    try:
        value = json.loads(line)
        if isinstance(value, dict) and "created_at" in value:
            value["created_at"] = datetime.fromisoformat(value["created_at"].upper())
    except ValueError:
        return line
    return value


ORDERS: dict[str, Callable[[list[Line]], list[Line]]] = {
    "two actions were exchanged": lambda x: [*x[:2], x[3], x[2], *x[4:]],
    "two refusals were exchanged": lambda x: [*x[:6], x[7], x[6], *x[8:]],
    "an action and a refusal were exchanged": lambda x: [*x[:5], x[6], x[5], *x[7:]],
    "the first line is not first": lambda x: [x[1], x[0], *x[2:]],
    "the first line is missing": lambda x: x[1:],
    "the first line is there twice": lambda x: [x[0], *x],
    "the first action is missing": lambda x: [x[0], *x[2:]],
    "an action of a set is missing": lambda x: [*x[:3], *x[4:]],
    "the last action is missing": lambda x: [*x[:5], *x[6:]],
    "the first refusal is missing": lambda x: [*x[:6], *x[7:]],
    "the last refusal is missing": lambda x: x[:-1],
    "all refusals are missing": lambda x: x[:6],
    "everything is missing": lambda x: x[:1],
    "an action is there twice": lambda x: [*x[:3], x[2], *x[3:]],
    "the last refusal is there twice": lambda x: [*x, x[-1]],
    "the file is there twice": lambda x: [*x, *x],
    "all is in reverse": lambda x: x[::-1],
    "there is nothing": lambda _: [],
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_rows_out_of_order_missing_or_doubled_are_found(order: Callable[[list[Line]], list[Line]]) -> None:
    assert not verified(order(an_export())).holds


@given(st.permutations(range(1, 9)))
def test_any_other_order_of_the_rows_is_found(order: list[int]) -> None:
    lines = an_export()
    assert verified([lines[0], *(lines[place] for place in order)]).holds == (order == sorted(order))


def with_body(place: int, change: dict[str, Any]) -> list[Line]:
    """An export with another receipt at a place, and every hash made anew: only what it says can give it away."""
    lines = an_export()
    line = lines[place]
    if line["kind"] == "action":
        line |= sealed_receipt(json.loads(line["receipt_text"]) | change)
    else:
        line |= sealed(json.loads(line["text"]) | change)
    return rechained(lines)


REFUSED_LINE = a_rule(**A_REFUSAL)
FORGERIES: dict[str, tuple[int, dict[str, Any], str]] = {
    "a limit that would have refused": (1, {"rules": [a_rule(limit="5")]}, "its inputs result in REFUSED"),
    "a limit that is no number": (1, {"rules": [a_rule(limit="many")]}, "cannot be compared"),
    "another comparison": (1, {"rules": [a_rule(comparison="AT_LEAST")]}, "its inputs result in REFUSED"),
    "a comparison of nobody's": (1, {"rules": [a_rule(comparison="near")]}, "cannot be compared"),
    "a refusal called a pass": (6, {"verdict": "PASSED"}, "its rules result in REFUSED"),
    "a pass called a refusal": (1, {"verdict": "REFUSED"}, "its rules result in PASSED"),
    "a line that refused called a pass": (
        6,
        {"rules": [REFUSED_LINE | {"verdict": "PASSED"}]},
        "its inputs result in REFUSED",
    ),
    "a hard rule called a shadow": (
        6,
        {"rules": [REFUSED_LINE | {"mode": "SHADOW"}]},
        "its inputs result in WOULD_REFUSE",
    ),
    "a refusal that was only watched": (6, {"watched_only": True}, "its inputs result in WOULD_REFUSE"),
    "a refusal without a refusing rule": (6, {"rules": []}, "its rules result in PASSED"),
    "a refusal that was exempt": (6, {"exempt": "REDUCES_RISK"}, "exempts it"),
    "an accepted action that was refused": (1, {"verdict": "REFUSED", "rules": [REFUSED_LINE]}, "not PASSED"),
    "an observation although an input was missing": (
        8,
        {"rules": [REFUSED_LINE | {"missing": "a price"}]},
        "an input was missing",
    ),
    "nothing that would pass": (6, {"rules": [REFUSED_LINE | {"would_pass": None}]}, "would_pass must be present"),
    "a version of nobody's": (1, {"version": "2"}, "does not exist"),
    "a version that was never released": (1, {"version": 1}, "does not exist"),
    "a gate of nobody's": (1, {"gate": "window"}, "neither ACCEPT nor DOOR"),
    "a mode of nobody's": (1, {"rules": [a_rule(mode="soft")]}, "does not exist"),
    "a scope of nobody's": (1, {"rules": [a_rule(scope="world")]}, "does not exist"),
    "a line without a code": (1, {"rules": [a_rule(code=None)]}, "it has no code"),
    "a version of a control below one": (1, {"rules": [a_rule(control_version=0)]}, "is not a version"),
    "no lines at all": (1, {"rules": None}, "not a list of lines"),
    "another symbol": (1, {"command": a_body()["command"] | {"symbol": "MSFT"}}, "about the symbol 'MSFT'"),
    "another quantity": (1, {"command": a_body()["command"] | {"quantity": "1"}}, "about the quantity '1'"),
    "another price": (1, {"command": a_body()["command"] | {"limit_price": "1"}}, "about the limit_price '1'"),
    "a stop price": (1, {"command": a_body()["command"] | {"stop_price": "1"}}, "about the stop_price '1'"),
}


@pytest.mark.parametrize(("place", "change", "flaw"), FORGERIES.values(), ids=FORGERIES)
def test_a_receipt_that_contradicts_itself_is_found_though_every_hash_was_made_again(
    place: int, change: dict[str, Any], flaw: str
) -> None:
    result = verified(with_body(place, change))
    assert flaw in said(result)
    line = f"line {place + 1}, "
    assert all(each.where.startswith(line) for each in result.flaws), said(result)


def test_a_flaw_says_where_and_what() -> None:
    lines = an_export()
    lines[3]["quantity"] = "11"
    (first, *_) = verified(lines).flaws
    assert str(first) == f"line 4, action 3 ({lines[3]['id']}): its hash is not that of its fields"


@pytest.mark.parametrize(("place", "chained_from"), [(4, 1), (1, 0), (2, 1), (5, 2)])
def test_an_action_that_says_it_was_accepted_with_others_is_found(place: int, chained_from: int) -> None:
    lines = an_export()
    lines[place]["chained_from"] = chained_from
    assert not verified(lines).holds


def test_the_same_numbers_with_other_digits_are_the_same_to_a_receipt_and_not_to_a_hash() -> None:
    lines = rechained([an_action(1, 1, a_body(a_rule()), quantity="10.00")])
    assert verified(lines).holds
    lines[1]["quantity"] = "10"
    assert not verified(lines).holds


@pytest.mark.parametrize(
    ("comparison", "limit", "observed", "passes"),
    [
        ("EQUALS", "enabled", "enabled", True),
        ("EQUALS", "enabled", "disabled: earnings", False),
        ("AT_MOST", "10", "10", True),
        ("AT_MOST", "10", "10.0", True),
        ("AT_MOST", "9.99", 10, False),
        ("AT_MOST", "9", "10", False),
        ("AT_LEAST", "9", "10", True),
        ("AT_LEAST", "10", "9", False),
        ("AT_MOST", "2026-01-05T12:00:00.000000Z", "2026-01-05T12:00:00.000001Z", False),
        ("MULTIPLE_OF", "0.05", "187.35", True),
        ("MULTIPLE_OF", "0.05", "187.36", False),
        ("MULTIPLE_OF", "1", "3", True),
        ("ONE_OF", ["BUY", "SELL"], "SELL_SHORT", False),
        ("ONE_OF", [], "BUY", False),
        ("NONE_OF", ["AAPL"], "AAPL", False),
        ("NONE_OF", [], "AAPL", True),
        ("WITHIN", [["09:30:00", "16:00:00"]], "09:30:00.000000", True),
        ("WITHIN", [["09:30:00", "16:00:00"]], "16:00:00.000000", False),
        ("WITHIN", [["09:30:00", "16:00:00"]], "zone unknown", False),
        ("WITHIN", [["1", "2"], ["9", "11"]], "10", True),
        ("WITHIN", [["1", "2"]], "2", False),
        ("WITHIN", [], "10", False),
    ],
)
def test_a_comparison_is_made_again(comparison: str, limit: Any, observed: Any, passes: bool) -> None:
    assert compare(comparison, limit, observed) is passes


@pytest.mark.parametrize(
    ("comparison", "limit", "observed"),
    [
        ("AT_MOST", None, "1"),
        ("AT_MOST", "1", None),
        ("AT_MOST", [], "1"),
        ("AT_MOST", True, 1),
        ("MULTIPLE_OF", "0", "1"),
        ("MULTIPLE_OF", "-1", "1"),
        ("MULTIPLE_OF", "x", "1"),
        ("MULTIPLE_OF", "0.001", "1" + "0" * 2000),
        ("WITHIN", "09:30", "10:00"),
        ("WITHIN", [["09:30"]], "10:00"),
        ("ONE_OF", "BUY", "BUY"),
        (None, "1", "1"),
    ],
)
def test_what_cannot_be_compared_is_said(comparison: Any, limit: Any, observed: Any) -> None:
    with pytest.raises(NotComparable):
        compare(comparison, limit, observed)


def test_a_cancel_that_the_platform_asked_for_says_what_was_exceeded() -> None:
    line = a_rule(code="RESTING_TOO_LONG", verdict="EXCEEDED", limit=1000, observed=2000)
    assert list(flaws_of_body(a_body(line, exempt="CANCEL"))) == []
    assert list(flaws_of_body(a_body(line))) != []


TEXTS = st.sampled_from(["", "1", "-1", "x", "REFUSED", "PASSED", "HARD", "\ud800", "1" * 5000])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS | st.floats(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(TEXTS, inside, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["version", "gate", "verdict", "rules", "exempt", "watched_only", "command"])
LINE_NAMES = st.sampled_from([*a_rule(), "missing", "would_pass", "inputs"])


@given(st.dictionaries(NAMES, JSON), st.dictionaries(LINE_NAMES, JSON))
def test_nothing_that_a_receipt_may_say_stops_the_verifier(body: Line, line: Line) -> None:
    lines = an_export()
    lines[1] |= sealed_receipt(a_body(a_rule(**line)) | body)
    result = verified(rechained(lines))
    assert result.actions == 5
    verify_receipt(json.dumps(a_body(a_rule(**line)) | body).encode())


@given(st.binary(max_size=64))
def test_nothing_that_a_file_may_hold_stops_the_verifier(text: bytes) -> None:
    assert not verify_export([*written(an_export()), text]).holds
    verify_receipt(text)


def a_shown(body: Line, /, **changes: Any) -> Line:
    shown = {
        "id": "r",
        "account_id": "a",
        "verdict": body["verdict"],
        "gate": "ACCEPT",
        "created_at": "2026-01-05T12:00:00Z",
        "receipt": body,
        **sealed(body),
    }
    return shown | changes


def test_one_receipt_is_verified_by_itself() -> None:
    assert verify_receipt(json.dumps(a_shown(a_body(a_rule())), indent=2).encode()).holds


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": "REFUSED"},
        {"gate": "DOOR"},
        {"hash": "0" * 64},
        {"text": "{}"},
        {"text": 7},
        {"receipt": {}},
        {"refusal_no": 1},
    ],
)
def test_what_was_changed_in_one_receipt_is_found(changes: dict[str, Any]) -> None:
    assert not verify_receipt(json.dumps(a_shown(a_body(a_rule()), **changes)).encode()).holds


def test_the_receipt_of_a_refusal_s_answer_is_verified_though_it_has_no_hash() -> None:
    answered = {"id": "r", **a_body(REFUSED_LINE)}
    assert verify_receipt(json.dumps(answered).encode()).holds
    assert not verify_receipt(json.dumps(answered | {"verdict": "PASSED"}).encode()).holds
