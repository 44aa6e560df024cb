"""When it may be said that an account has no working order: only on the broker's word, and never too early."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.halts import HaltFigures, Quietness, Switch, no_working_orders
from openbell_server.domain.controls.rules import SwitchState

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
QUIET = Quietness(
    as_of=NOON + 10 * SECOND,
    open_orders=0,
    in_doubt=0,
    queued=0,
    external_orders=0,
    compared_at=NOON + 5 * SECOND,
    last_event_at=NOON + 4 * SECOND,
    halted_at=NOON,
    is_held=False,
    is_watched_only=False,
)


def test_it_is_said_once_the_list_was_read_after_the_last_end() -> None:
    assert no_working_orders(QUIET) == (True, None)
    assert no_working_orders(replace(QUIET, last_event_at=None)) == (True, None)


@pytest.mark.parametrize(
    ("change", "said", "words"),
    [
        ({"open_orders": 1}, False, "1 orders are open"),
        ({"in_doubt": 2}, False, "2 commands have no outcome"),
        ({"external_orders": 1}, False, "not asked for here"),
        ({"is_held": True}, None, "restored"),
        ({"halted_at": None}, None, "not halted"),
        ({"is_watched_only": True}, None, "only watches"),
        ({"queued": 3}, None, "3 queued commands"),
        ({"compared_at": None}, None, "not read since"),
        # At the same moment is not after it.
        ({"compared_at": NOON + 4 * SECOND}, None, "not read since 2026-01-05T12:00:04"),
        ({"compared_at": NOON, "last_event_at": NOON - SECOND}, None, "not read since 2026-01-05T12:00:00"),
        ({"compared_at": NOON, "last_event_at": None}, None, "not read since 2026-01-05T12:00:00"),
    ],
)
def test_it_is_not_said_while_anything_stands_against_it(change: dict[str, Any], said: bool | None, words: str) -> None:
    answer, why = no_working_orders(replace(QUIET, **change))
    assert answer is said
    assert why is not None
    assert words in why
    assert "flat" not in why


def test_a_switch_knows_the_part_that_it_stops() -> None:
    of: dict[str, Any] = {"version": 1, "state": SwitchState.HALTED}
    assert Switch(scope=Scope.SYMBOL, subject="id BRK/B", **of).symbol == "BRK/B"
    assert Switch(scope=Scope.KEY, subject="k", **of).api_key_id == "k"
    account = Switch(scope=Scope.ACCOUNT, subject="id", **of)
    assert (account.symbol, account.api_key_id) == (None, None)


def test_whatever_passes_a_switch_that_lets_reductions_pass_counts_as_one() -> None:
    figures = HaltFigures(
        doors_opened_after=2,
        reducing_doors_after=1,
        in_flight=0,
        queued=0,
        skipped=0,
        cancels_asked=0,
        cancels_confirmed=0,
        ended_otherwise=0,
        last_confirmed_at=None,
    ).all_reducing()
    assert (figures.doors_opened_after, figures.reducing_doors_after) == (None, 3)
