"""The paper broker's seeded misbehaviour."""

import math
import re
from pathlib import Path

import pytest

from openbell_exchange.faults import (
    FAULT_NAMES,
    CommandKind,
    Fault,
    Faults,
    InvalidFaults,
    Oddity,
    parse_faults,
    plan_of,
)

IDS = [f"order{number}" for number in range(5000)]


def test_no_text_means_that_the_broker_behaves() -> None:
    assert parse_faults("") == Faults()
    assert {parse_faults(" ").fault_of(CommandKind.SUBMIT, name) for name in IDS} == {Fault.NONE}


def test_the_same_seed_gives_each_id_the_same_fault_in_any_order() -> None:
    plan = parse_faults("seed=7,accept_then_hang=0.2,hang=0.1")
    again = parse_faults("hang=0.1, accept_then_hang=0.2, seed=7")
    faults = {name: plan.fault_of(CommandKind.SUBMIT, name) for name in IDS}
    assert faults == {name: again.fault_of(CommandKind.SUBMIT, name) for name in reversed(IDS)}


def test_another_seed_gives_other_faults() -> None:
    plans = [parse_faults(f"seed={seed},hang=0.5") for seed in (1, 2)]
    first, second = ([plan.fault_of(CommandKind.SUBMIT, name) for name in IDS] for plan in plans)
    assert first != second


def test_faults_come_at_about_their_rates() -> None:
    plan = parse_faults("seed=3,hang=0.1,accept_then_reset=0.2,refuse=0.3")
    faults = [plan.fault_of(CommandKind.SUBMIT, name) for name in IDS]
    expected = {Fault.HANG: 0.1, Fault.DONE_THEN_RESET: 0.2, Fault.REFUSE: 0.3, Fault.NONE: 0.4}
    assert {fault: faults.count(fault) / len(IDS) for fault in expected} == pytest.approx(expected, abs=0.03)


def test_submits_replaces_and_cancels_fail_apart() -> None:
    plan = parse_faults("cancel_then_hang=1,error_500_after_accept=1,replace_then_reset=1")
    assert plan.fault_of(CommandKind.REPLACE, "a") is Fault.DONE_THEN_RESET
    assert plan.fault_of(CommandKind.CANCEL, "a") is Fault.DONE_THEN_HANG
    assert plan.fault_of(CommandKind.SUBMIT, "a") is Fault.DONE_THEN_ERROR


def test_delays_stay_within_slow_ms() -> None:
    delays = [parse_faults("slow_ms=200").delay_seconds(CommandKind.SUBMIT, name) for name in IDS]
    assert 0 <= min(delays) < 0.01
    assert 0.19 < max(delays) < 0.2


@pytest.mark.parametrize(
    "text",
    [
        "hang",
        "hang=",
        "hang=2",
        "hang=nan",
        "hang=-0.1",
        "hangs=0.1",
        "hang=0.1,hang=0.1",
        "seed=x",
        "seed=-1",
        "slow_ms=1.5",
        "slow_ms=10001",
        "hang=0.6,refuse=0.6",
    ],
)
def test_a_text_that_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(InvalidFaults):
        parse_faults(text)


def test_a_command_that_was_lost_has_another_chance_each_time_the_same() -> None:
    plan = parse_faults("seed=7,hang=0.3")
    lost = [name for name in IDS if plan.fault_of(CommandKind.SUBMIT, name) is Fault.HANG]
    again = [plan.fault_of(CommandKind.SUBMIT, name, 1) for name in lost]
    assert 0.2 < again.count(Fault.HANG) / len(lost) < 0.4
    assert again == [plan.fault_of(CommandKind.SUBMIT, name, 1) for name in lost]
    always = parse_faults("hang=1")
    assert {always.fault_of(CommandKind.SUBMIT, "a", times) for times in range(5)} == {Fault.HANG}


def test_an_order_is_odd_by_a_chance_of_its_own() -> None:
    plan = plan_of(7, {"duplicate_fills": 0.5, "bust": 0.5})
    twice, busted = ({name for name in IDS if plan.is_odd(odd, name)} for odd in (Oddity.DUPLICATE_FILLS, Oddity.BUST))
    assert len(twice) / len(IDS) == pytest.approx(0.5, abs=0.03)
    assert len(twice & busted) / len(IDS) == pytest.approx(0.25, abs=0.03)
    assert not any(plan.is_odd(Oddity.CORRECT, name) for name in IDS)


def test_a_text_and_its_numbers_are_the_same_plan() -> None:
    settings = {"accept_late": 0.25, "late_ms": 2000, "reorder_fills": 1}
    assert parse_faults("seed=9,late_ms=2000,accept_late=0.25,reorder_fills=1") == plan_of(9, settings)


@pytest.mark.parametrize(("name", "value"), [("late_ms", math.nan), ("late_ms", math.inf), ("hang", math.nan)])
def test_a_number_that_is_none_is_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidFaults) as refused:
        plan_of(0, {name: value})
    assert refused.value.name == name


def test_the_page_names_every_fault_once() -> None:
    page = (Path(__file__).parents[5] / "docs/paper-broker.md").read_text()
    table = page.partition("## Break it on purpose")[2].partition("## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(FAULT_NAMES)
