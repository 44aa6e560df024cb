"""The page of the lifecycle is made from the tables, and says all that is in them."""

from pathlib import Path

import pytest
from order_lifecycle_page import order_lifecycle_page

from openbell_server.domain.orders import action_lifecycle, order_aggregate, order_reports

PAGE = Path(__file__).parents[4] / "docs/lifecycle.md"


def test_the_committed_page_is_made_of_the_tables() -> None:
    assert PAGE.read_text() == order_lifecycle_page(), "run make generate"


def test_the_page_has_every_state_event_and_notice() -> None:
    words = {state.value for state in action_lifecycle.ActionState}
    words |= {event.__name__ for event in order_aggregate.STEPS}
    words |= set(order_reports.NOTICES)
    assert [word for word in sorted(words) if word not in order_lifecycle_page()] == []


def test_another_edge_of_a_table_makes_another_page(monkeypatch: pytest.MonkeyPatch) -> None:
    edge = (action_lifecycle.ActionState.ACKED, action_lifecycle.ActionState.QUEUED)
    monkeypatch.setitem(action_lifecycle.STEPS, edge, "a mistake")
    assert order_lifecycle_page() != PAGE.read_text()
    assert "| ACKED | QUEUED | a mistake |" in order_lifecycle_page()
