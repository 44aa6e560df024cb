"""Trades tell what becomes of executions, one after the other, whatever order a broker tells it in."""

from collections.abc import Sequence
from decimal import Decimal
from random import Random

import pytest

from openbell_server.domain.orders.broker_reports import BrokerExecution, ExecutionChange
from openbell_server.domain.orders.broker_trades import Tally, Trade, TradeKind, recorded, recorded_and_changed, tallies
from openbell_server.domain.orders.order_aggregate import CloseReason, Order, Standing
from openbell_server.domain.orders.order_reports import counted_anew, unseen_changes
from support.brokers.shuffled_reports import a_history, shuffled
from support.builders.tenant import an_execution, some_terms

E1, E2 = an_execution(1, 5, 2), an_execution(2, 3, 4)


def changed(
    fill: BrokerExecution, revision: int, quantity: int, price: int = 9, fee: int | None = None
) -> ExecutionChange:
    return ExecutionChange(
        execution_id=fill.execution_id,
        revision=revision,
        quantity=Decimal(quantity),
        price=Decimal(price),
        fee=None if fee is None else Decimal(fee),
    )


def words(trades: Sequence[Trade]) -> list[tuple[str, str, int, int, int]]:
    return [(t.execution_id, t.kind.value, int(t.quantity), int(t.price), int(t.change)) for t in trades]


def test_an_execution_taken_back_is_told_with_the_numbers_it_had_when_it_was_corrected_before() -> None:
    known = [changed(E1, 1, 4)]
    assert words(recorded_and_changed([], [E1], known, [changed(E1, 2, 0, 1)])) == [("e1", "BUST", 4, 9, -4)]


def test_what_is_told_of_an_execution_before_itself_follows_it() -> None:
    early = changed(E1, 1, 4)
    assert recorded_and_changed([], [], [], [early]) == []
    told = recorded_and_changed(["e1"], [E1], [early], [])
    assert words(told) == [("e1", "NORMAL", 5, 2, 5), ("e1", "CORRECTION", 4, 9, -1)]


def test_a_trade_has_the_fee_after_a_correction_and_before_a_bust() -> None:
    fill = an_execution(1, 5, 2, fee="7")
    news = [changed(fill, 1, 4), changed(fill, 2, 3, fee=6), changed(fill, 3, 2), changed(fill, 4, 0, fee=0)]
    told = recorded_and_changed(["e1"], [fill], [], news)
    assert [(trade.kind.value, str(trade.fee)) for trade in told] == [
        ("NORMAL", "7"),
        ("CORRECTION", "7"),
        ("CORRECTION", "6"),
        ("CORRECTION", "6"),
        ("BUST", "6"),
    ]
    for place, change in enumerate(news):
        (alone,) = recorded_and_changed([], [fill], news[:place], [change])
        assert alone == told[place + 1]
    unpriced = recorded_and_changed(["e1"], [E1], [], [changed(E1, 1, 4)])
    assert [trade.fee for trade in unpriced] == [None, None]


@pytest.mark.parametrize("newer", [changed(E1, 2, 4), changed(E1, 2, 0)])
def test_an_older_word_about_an_execution_is_no_trade(newer: ExecutionChange) -> None:
    assert recorded_and_changed([], [E1], [newer], [changed(E1, 1, 2)]) == []


def test_an_execution_is_taken_back_once_however_often_that_is_told() -> None:
    assert recorded_and_changed([], [E1], [changed(E1, 1, 0)], [changed(E1, 3, 0), changed(E1, 4, 7)]) == []


@pytest.mark.parametrize("number", range(60))
def test_the_last_trade_of_each_execution_adds_up_to_what_is_filled_in_any_order_of_reports(number: int) -> None:
    broker = a_history(number)
    executions: dict[str, BrokerExecution] = {}
    changes: list[ExecutionChange] = []
    standing: dict[str, Decimal] = {}
    filled = Decimal(0)
    normal = []
    for report in shuffled(broker.feed, Random(number)):
        unseen = {fill.execution_id: fill for fill in report.executions if fill.execution_id not in executions}
        executions |= unseen
        news = unseen_changes(changes, report.changes)
        trades = recorded_and_changed(unseen, executions.values(), changes, news)
        changes += news
        for trade in trades:
            filled += trade.change
            standing[trade.execution_id] = Decimal(0) if trade.kind is TradeKind.BUST else trade.quantity
            normal += [trade.execution_id] if trade.kind is TradeKind.NORMAL else []
        count = counted_anew(executions.values(), changes)
        assert (filled, sum(standing.values())) == (count.filled_quantity,) * 2
    assert filled == broker.filled
    assert sorted(normal) == sorted(executions)


def test_each_trade_says_how_the_order_and_the_position_stand_after_it() -> None:
    before = Order(terms=some_terms(10, "1.50"), standing=Standing.WORKING, filled_quantity=Decimal(1))
    after = Order(terms=some_terms(10, "1.50"), standing=Standing.WORKING, filled_quantity=Decimal(9))
    sold = tallies(before, after, recorded([E1, E2]), -1, Decimal(-7))
    assert sold == [Tally(Decimal(6), Decimal(4), Decimal(-4)), Tally(Decimal(9), Decimal(1), Decimal(-7))]


def test_the_last_trade_before_an_end_leaves_nothing_and_those_after_an_end_never_did() -> None:
    working = Order(terms=some_terms(10, "1.50"), standing=Standing.WORKING)
    closed = Order(
        terms=some_terms(10, "1.50"),
        standing=Standing.CLOSED,
        close_reason=CloseReason.CANCELED,
        filled_quantity=Decimal(8),
    )
    trades = recorded([E1, E2])
    assert [int(t.leaves_quantity) for t in tallies(working, closed, trades, 1, Decimal(8))] == [5, 0]
    assert [int(t.leaves_quantity) for t in tallies(closed, closed, trades, 1, Decimal(8))] == [0, 0]
