"""The value of a day, rebuilt from commands on record."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from openbell_server.domain.controls.backtest import Replay
from openbell_server.domain.controls.backtest_markets import Recalled, ReceiptLine, recalled
from openbell_server.domain.controls.backtest_state import RecordedState
from openbell_server.domain.controls.rules import OnMissing, RuleBook
from support.builders.recorded_commands import AAPL, NOON, a_command, a_replay, a_rule

FROM_HIGHEST = {"measured_from": "HIGHEST"}
DAY: dict[str, Any] = {"value": "20", "currency": "USD", "timezone": "UTC"}


def priced(price: str) -> Recalled:
    """What a receipt recorded that a rule on the value of orders wrote."""
    inputs = {"multiplier": "1", "currency": "USD", "price": price}
    return recalled(AAPL, [ReceiptLine(code="NOTIONAL_MAX", inputs=inputs)])


def test_the_value_of_a_day_is_that_of_the_commands_that_were_accepted_on_it() -> None:
    replay = a_replay(a_rule("DAY_NOTIONAL_MAX", **DAY))
    midnight = 12 * 3600
    commands = [
        a_command(seconds=-1),
        a_command(seconds=1, seq=None),
        a_command(seconds=2),
        # 15 + 15 of two were accepted by then.
        a_command(seconds=midnight),
    ]
    replay.take([replace(command, recalled=priced("1.50")) for command in commands])
    assert (replay.tally.judged, replay.tally.refused, replay.tally.undecided) == (3, 2, 0)


def test_a_day_without_its_beginning_or_its_prices_is_only_sure_where_it_refuses() -> None:
    known, unknown = (replace(a_command(), recalled=each) for each in (priced("1.50"), recalled(AAPL, [])))
    rule = a_rule("DAY_NOTIONAL_MAX", **DAY)
    for begins_at, commands, told_of in (
        (NOON, [known, known], (1, 1)),
        (NOON - timedelta(hours=12), [known, known], (1, 0)),
        # Nobody recorded the instrument of the first.
        (None, [unknown], (0, 1)),
    ):
        book = RuleBook(organization_epoch=1, account_epoch=1, rules=(rule,))
        replay = Replay(book, RecordedState([], {}), since=NOON, begins_at=begins_at)
        replay.take(commands)
        assert (replay.tally.refused, replay.tally.undecided) == told_of, begins_at


def test_a_loss_is_known_where_a_receipt_has_it() -> None:
    inputs = {"currency": "USD", "timezone": "UTC", "measured_from": "OPENING", "loss": "101"}
    known = replace(a_command(), recalled=recalled(AAPL, [ReceiptLine(code="LOSS_MAX", inputs=inputs)]))
    limit: dict[str, Any] = {"value": "100", "currency": "USD", "on_breach": "HALTED"}
    for parameters, told_of in ((limit, (1, 0)), (limit | {"value": "101"}, (0, 0)), (limit | FROM_HIGHEST, (0, 1))):
        replay = a_replay(replace(a_rule("LOSS_MAX", **parameters), on_missing=OnMissing.DENY))
        replay.take([known])
        assert (replay.tally.refused, replay.tally.undecided) == told_of, parameters
