"""The largest losses of a day, from measurements of the profit."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from openbell_server.domain.money.losses import LossMark, measured

NOON = datetime(2026, 3, 6, 12, tzinfo=UTC)
DAY = date(2026, 3, 6)


def after(*profits: str, before: LossMark | None = None, day: date = DAY) -> LossMark:
    mark = before
    for number, profit in enumerate(profits):
        mark = measured(mark, day, Decimal(profit), NOON + timedelta(seconds=number))
    assert mark is not None
    return mark


def lost(mark: LossMark) -> tuple[str, str]:
    return str(mark.lost_from_opening), str(mark.lost_from_highest)


def test_the_first_measurement_opens_the_first_day() -> None:
    assert lost(after("-500")) == ("0", "0")
    assert lost(after("-500", "-700")) == ("200", "200")


def test_a_loss_that_was_made_good_stays_the_loss_of_the_day() -> None:
    assert lost(after("0", "-200", "300")) == ("200", "200")
    assert lost(after("0", "-200", "300", "50")) == ("200", "250")


def test_a_day_begins_with_the_last_profit_of_the_day_before() -> None:
    yesterday = after("0", "-200", "-100")
    today = after("-150", before=yesterday, day=DAY + timedelta(days=1))
    assert (today.opening, today.highest, *lost(today)) == (Decimal(-100), Decimal(-100), "50", "50")
    assert lost(after("-90", before=yesterday, day=DAY + timedelta(days=1))) == ("0", "0")


def test_a_measurement_says_nothing_of_a_time_half_a_minute_later() -> None:
    mark = after("0")
    assert mark.is_current(NOON + timedelta(seconds=30))
    assert not mark.is_current(NOON + timedelta(seconds=30.001))
