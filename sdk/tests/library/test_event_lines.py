"""Events as lines for a person."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from openbell import BrokerTrade, ControlChanged, Event
from openbell.cli.tables import show_event

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
TRADE = BrokerTrade(
    intent_id="i1",
    execution_id="e1",
    symbol="AAPL",
    order_side="SELL",
    kind="BUST",
    quantity=Decimal("2.50"),
    price=Decimal("187.10"),
    executed_at=NOON,
    cumulative_quantity=Decimal(0),
    leaves_quantity=Decimal(10),
    position=Decimal(-3),
)
CONTROL = ControlChanged(
    scope="SYMBOL",
    subject="AAPL",
    code="SWITCH",
    change="CHANGED",
    version=2,
    status="HALTED",
    reason="\x1b[2Jnews",
    principal_type="OPERATOR",
    principal_id="olga",
)


def line_of(capsys: pytest.CaptureFixture[str], **about: object) -> str:
    show_event(
        Event(account_id="a", account_seq=7, prev_seq=6, resume_token="t", occurred_at=NOON, **about)  # type: ignore[arg-type]
    )
    return capsys.readouterr().out


def test_a_trade_is_shown_with_what_became_of_it_and_what_is_held_after_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = line_of(capsys, broker_trade=TRADE)
    assert line.endswith("trade   i1  SELL 2.50 AAPL at 187.10  BUST  0 filled, 10 open, holds -3\n")


def test_a_changed_control_is_shown_with_who_and_why_and_nothing_that_a_terminal_obeys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = line_of(capsys, control_changed=CONTROL)
    assert "control SYMBOL AAPL SWITCH CHANGED HALTED  by OPERATOR olga: " in line
    assert "\x1b" not in line
