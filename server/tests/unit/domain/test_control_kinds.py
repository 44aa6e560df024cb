"""Every kind of control by its table of cases: live and paper, hard and shadow."""

import pytest

from control_cases import CASES
from control_commands import Case, judge, repeated
from openbell_server.domain.accounts import Environment
from openbell_server.domain.control_rules import OnMissing
from openbell_server.domain.controls_catalogue import CATALOGUE
from openbell_server.domain.findings import CONTROL_INPUT_UNAVAILABLE, Mode, Verdict

MISSING = [case for case in CASES if case.what == "missing"]
REFUSED = [case for case in CASES if not case.passes]


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
