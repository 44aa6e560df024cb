"""The order machine under hypothesis, and the matrices and shuffles of `make proof PART=races` in small."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from openbell_server.domain.orders.order_aggregate import Standing
from support.brokers.order_model import OPERATIONS, PICK_MAX, OrderMachine, recorded_steps
from support.brokers.replace_matrices import MATRICES, REFUSED_AT_ONCE, Row, wrong_rows
from support.brokers.shuffled_reports import DEPTH_MAX, a_history, followed, is_true, order_hash
from support.brokers.single_order_broker import Habits

PICKS = st.integers(0, PICK_MAX - 1)
flags = st.booleans()


class AnyOrder(RuleBasedStateMachine):
    """Everything that can happen to an order, in any order; what must hold is checked after each step."""

    @initialize(versions=flags, mints_ids=flags, overfills=flags, reopens=flags, tells_all=flags)
    def begin(self, *, versions: bool, mints_ids: bool, overfills: bool, reopens: bool, tells_all: bool) -> None:
        self.recording = recorded_steps()
        habits = Habits(versions, mints_ids, overfills, reopens and versions, tells_all)
        self.machine = OrderMachine(habits, self.recording.__enter__())

    @rule(operation=st.sampled_from(OPERATIONS), pick=PICKS)
    def step(self, operation: str, pick: int) -> None:
        self.machine.do(operation, pick)

    def teardown(self) -> None:
        if hasattr(self, "recording"):
            try:
                self.machine.finish(0)
            finally:
                self.recording.__exit__(None, None, None)


TestAnyOrder: Any = AnyOrder.TestCase
TestAnyOrder.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.parametrize("by_report", [False, True])
@pytest.mark.parametrize("rows", [*MATRICES.values(), REFUSED_AT_ONCE], ids=[*MATRICES, "refused at once"])
def test_an_order_goes_through_each_matrix_row_by_row(rows: tuple[Row, ...], *, by_report: bool) -> None:
    assert wrong_rows(rows, by_report=by_report) == []


@given(number=st.integers(0, 10_000), data=st.data())
@settings(deadline=None)
def test_reports_in_any_order_with_copies_give_the_order_that_the_broker_has(number: int, data: st.DataObject) -> None:
    broker = a_history(number)
    copies = data.draw(st.lists(st.sampled_from(broker.feed), max_size=5))
    order = followed(data.draw(st.permutations([*broker.feed, *copies])))
    assert is_true(order, broker)
    assert order_hash(order) == order_hash(followed(broker.feed))


@pytest.mark.parametrize("depth", range(1, DEPTH_MAX + 1))
def test_late_reports_on_any_link_of_a_chain_of_replaces_count(depth: int) -> None:
    broker = next(b for number in range(1000) if (b := a_history(number, depth)).replaces == depth)
    order = followed(broker.feed[::-1])
    assert is_true(order, broker)
    assert set(order.broker_order_ids) == set(broker.ids)
    assert (order.standing is Standing.CLOSED) == (not broker.is_working)
