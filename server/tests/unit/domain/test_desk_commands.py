"""The outcome of each order of a desk command, its status and its next step follow from stored facts alone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pytest

from openbell_server.domain.identifiers import IntentId, Symbol
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.desk_commands import (
    PLACE_WITHIN,
    ClosingFacts,
    ClosingOrder,
    DeskCommand,
    DeskCommandType,
    DeskReason,
    DeskScope,
    DeskStatus,
    End,
    OrderOutcome,
    Place,
    Wait,
    closing_terms,
    next_step,
    outcome_of,
    totals_of,
)
from openbell_server.domain.orders.order_aggregate import Certainty, CloseReason
from openbell_server.domain.orders.order_terms import OrderSide

SURE, UNSURE = Certainty.CONFIRMED, Certainty.UNKNOWN
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
LATE = PLACE_WITHIN + timedelta(microseconds=1)


def closing(ended: CloseReason | None = None, certainty: Certainty = SURE) -> ClosingOrder:
    return ClosingOrder(intent_id=IntentId(UUID(int=1)), close_reason=ended, certainty=certainty)


def facts(
    open_orders: int = 0,
    unknown_orders: int = 0,
    age: timedelta = PLACE_WITHIN,
    placed: ClosingOrder | None = None,
    waits_for: DeskReason | None = None,
) -> ClosingFacts:
    return ClosingFacts(
        age=age, open_orders=open_orders, unknown_orders=unknown_orders, closing=placed, waits_for=waits_for
    )


@pytest.mark.parametrize(
    ("ended", "certainty", "last_cancel", "has_ended", "outcome"),
    [
        *((reason, SURE, ActionState.REFUSED, is_late, str(reason)) for reason in CloseReason for is_late in (0, 1)),
        (None, SURE, None, False, "CANCELING"),
        (None, SURE, ActionState.QUEUED, False, "CANCELING"),
        (None, SURE, ActionState.ACKED, False, "CANCELING"),
        *((None, SURE, state, False, "CANCEL_FAILED") for state in ("REFUSED", "FAILED", "SKIPPED", "ABANDONED")),
        (None, UNSURE, None, False, "UNKNOWN"),
        (None, UNSURE, ActionState.REFUSED, True, "UNKNOWN"),
        (None, SURE, None, True, "OPEN"),
        (None, SURE, ActionState.REFUSED, True, "OPEN"),
    ],
)
def test_the_outcome_of_an_order(
    ended: CloseReason | None, certainty: Certainty, last_cancel: str | None, has_ended: bool, outcome: str
) -> None:
    state = None if last_cancel is None else ActionState(last_cancel)
    assert outcome_of(ended, certainty, state, has_ended=bool(has_ended)) == outcome


COMMAND = DeskCommand(
    id=UUID(int=2),
    scope=DeskScope(command_type=DeskCommandType.CLOSE_POSITION, symbol=Symbol("AAPL"), api_key_id=None),
    principal=("USER", "u"),
    created_at=NOW,
    orders=1,
    external_orders=0,
    ended_at=None,
    failed=False,
    reason=None,
    detail=None,
    receipt_id=None,
    closing=None,
    has_unknown=False,
)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, DeskStatus.WORKING),
        ({"has_unknown": True}, DeskStatus.IN_DOUBT),
        ({"closing": closing()}, DeskStatus.WORKING),
        ({"closing": closing(certainty=UNSURE)}, DeskStatus.IN_DOUBT),
        ({"ended_at": NOW}, DeskStatus.DONE),
        ({"ended_at": NOW, "failed": True, "has_unknown": True}, DeskStatus.FAILED),
    ],
)
def test_the_status_of_a_command(change: dict[str, object], status: DeskStatus) -> None:
    assert replace(COMMAND, **change).status is status  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("known", "step"),
    [
        (facts(open_orders=2), Wait(DeskReason.ORDERS_OPEN)),
        (facts(open_orders=2, unknown_orders=1), Wait(DeskReason.ORDER_IN_DOUBT)),
        (facts(placed=closing()), Wait()),
        (facts(placed=closing(), age=LATE), Wait()),
        (facts(placed=closing(CloseReason.FILLED), age=LATE), End()),
    ],
)
def test_a_position_waits_for_its_orders_and_then_for_its_closing_order(known: ClosingFacts, step: Wait | End) -> None:
    assert next_step(known) == step


def test_the_closing_order_may_be_placed_once_no_order_is_open_but_not_late() -> None:
    assert isinstance(next_step(facts()), Place)
    for known, reason in (
        (facts(age=LATE), DeskReason.TOO_LATE),
        (facts(age=LATE, waits_for=DeskReason.POSITION_UNKNOWN), DeskReason.POSITION_UNKNOWN),
        (facts(open_orders=1, age=LATE), DeskReason.ORDERS_OPEN),
        (facts(open_orders=1, unknown_orders=1, age=LATE), DeskReason.ORDER_IN_DOUBT),
    ):
        step = next_step(known)
        assert isinstance(step, End)
        assert step.reason is reason


@pytest.mark.parametrize("ended", [each for each in CloseReason if each is not CloseReason.FILLED])
def test_a_closing_order_that_ends_otherwise_than_filled_is_a_failure(ended: CloseReason) -> None:
    step = next_step(facts(placed=closing(ended)))
    assert step == End(DeskReason.ORDER_ENDED, f"the closing order ended as {ended}")


def test_a_long_is_sold_and_a_short_is_bought_back_for_exactly_what_is_held() -> None:
    assert closing_terms(Decimal("7.50")) == (OrderSide.SELL, Decimal("7.50"))
    assert closing_terms(Decimal("-7.50")) == (OrderSide.BUY, Decimal("7.50"))


def test_equal_commands_have_equal_hashes_and_different_ones_do_not() -> None:
    key = UUID(int=3)
    scopes = [
        DeskScope(command_type=command_type, symbol=symbol, api_key_id=api_key_id)
        for command_type in DeskCommandType
        for symbol in (None, Symbol("AAPL"), Symbol("MSFT"))
        for api_key_id in (None, key)
    ]
    assert len({scope.hash for scope in scopes}) == len(scopes)
    assert replace(scopes[0]).hash == scopes[0].hash


def test_totals_leave_out_zeros() -> None:
    counts = {OrderOutcome.CANCELED: 2, OrderOutcome.UNKNOWN: 1, OrderOutcome.FILLED: 0}
    assert totals_of(counts) == {"UNKNOWN": 1, "CANCELED": 2}
