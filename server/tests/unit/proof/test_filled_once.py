"""What the ledgers of the platform and of the broker have of each order, and when a broker received it."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from proof.filled_once import AtBroker, Comparison, Ours, compare
from proof.saturation import door_to_broker

ACCOUNT = UUID(int=1)
NAME, OTHER = (ACCOUNT, "order"), (ACCOUNT, "other")
ONCE, THERE = Ours(True, 1), AtBroker(1, 1)
OPENED = datetime(2026, 1, 5, 12, tzinfo=UTC)


def test_an_order_that_both_ledgers_have_once_is_filled_once() -> None:
    assert compare({NAME: ONCE, OTHER: ONCE}, {NAME: THERE, OTHER: THERE}) == Comparison(2, 2, 0)


@pytest.mark.parametrize(
    ("ours", "at_broker", "expected"),
    [
        ({NAME: ONCE}, {}, Comparison(1, 0, 0)),
        ({NAME: Ours(False, 0)}, {NAME: THERE}, Comparison(1, 0, 0)),
        ({NAME: Ours(False, 1)}, {NAME: THERE}, Comparison(1, 0, 0)),
        ({NAME: ONCE}, {NAME: AtBroker(1, 0)}, Comparison(1, 0, 0)),
        ({NAME: Ours(True, 2)}, {NAME: THERE}, Comparison(1, 0, 1)),
        ({NAME: ONCE}, {NAME: AtBroker(2, 2)}, Comparison(1, 0, 1)),
        ({NAME: ONCE}, {NAME: AtBroker(1, 3)}, Comparison(1, 0, 2)),
        ({NAME: ONCE}, {NAME: THERE, OTHER: THERE}, Comparison(1, 1, 1)),
        ({NAME: ONCE}, {(UUID(int=2), "order"): THERE}, Comparison(1, 0, 1)),
    ],
)
def test_an_order_that_differs_in_one_ledger_is_not_filled_once(
    ours: dict[tuple[UUID, str], Ours], at_broker: dict[tuple[UUID, str], AtBroker], expected: Comparison
) -> None:
    assert compare(ours, at_broker) == expected


def test_an_order_counts_from_its_last_door_to_its_last_arrival_and_not_if_it_never_arrived() -> None:
    received = {NAME: [OPENED - timedelta(seconds=3), OPENED + timedelta(seconds=2.5)]}
    assert door_to_broker({NAME: OPENED, OTHER: OPENED}, received) == [2.5]
