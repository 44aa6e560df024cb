"""Trading windows: when one is open, what is written of it, and when it opens and closes next."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbell_server.domain.markets.trading_windows import Day, TradingWindow

NEW_YORK = "America/New_York"
WORKDAYS = (Day.MONDAY, Day.TUESDAY, Day.WEDNESDAY, Day.THURSDAY, Day.FRIDAY)


def window(hours: str, zone: str | None = NEW_YORK, days: tuple[Day, ...] | None = None) -> TradingWindow:
    start, _, end = hours.partition("-")
    return TradingWindow(
        trading_start=time.fromisoformat(start) if start else None,
        trading_end=time.fromisoformat(end) if end else None,
        timezone=zone,
        days=days,
    )


VECTORS = [
    ("open edge, winter", "2026-03-06T14:30:00Z", window("09:30-16:00"), "2026-03-06"),
    ("a microsecond before", "2026-03-06T14:29:59.999999Z", window("09:30-16:00"), None),
    ("a microsecond before the end", "2026-03-06T20:59:59.999999Z", window("09:30-16:00"), "2026-03-06"),
    ("close edge", "2026-03-06T21:00:00Z", window("09:30-16:00"), None),
    ("before the clocks change", "2026-03-06T13:30:00Z", window("09:30-16:00"), None),
    ("after the clocks changed", "2026-03-09T13:30:00Z", window("09:30-16:00"), "2026-03-09"),
    ("overnight, before midnight", "2026-03-06T04:59:59Z", window("20:00-04:00"), "2026-03-05"),
    ("overnight, last second", "2026-03-06T08:59:59Z", window("20:00-04:00"), "2026-03-05"),
    ("overnight, end edge", "2026-03-06T09:00:00Z", window("20:00-04:00"), None),
    ("Saturday of Friday's session", "2026-03-07T06:00:00Z", window("20:00-04:00", days=WORKDAYS), "2026-03-06"),
    ("Sunday evening", "2026-03-02T02:00:00Z", window("20:00-04:00", days=WORKDAYS), None),
    ("Monday of Sunday's session", "2026-03-02T06:00:00Z", window("20:00-04:00", days=WORKDAYS), None),
    ("before the hour spring leaves out", "2026-03-08T06:59:59Z", window("02:15-02:45"), None),
    ("after the hour spring leaves out", "2026-03-08T07:00:00Z", window("02:15-02:45"), None),
    ("first pass of autumn's hour", "2026-11-01T05:30:00Z", window("01:00-02:00"), "2026-11-01"),
    ("second pass of autumn's hour", "2026-11-01T06:30:00Z", window("01:00-02:00"), "2026-11-01"),
    ("after autumn's hour", "2026-11-01T07:00:00Z", window("01:00-02:00"), None),
    ("overnight into spring", "2026-03-08T07:30:00Z", window("20:00-04:00"), "2026-03-07"),
    ("start only", "2026-03-06T20:00:01Z", window("15:00-"), "2026-03-06"),
    ("start only, before", "2026-03-06T19:59:59Z", window("15:00-"), None),
    ("end only", "2026-03-06T05:00:00Z", window("-12:00"), "2026-03-06"),
    ("end only, at the end", "2026-03-06T17:00:00Z", window("-12:00"), None),
    ("half-hour zone", "2026-03-06T03:45:00Z", window("09:15-15:30", "Asia/Kolkata"), "2026-03-06"),
    ("no zone is UTC", "2026-03-06T09:30:00Z", window("09:30-16:00", None), "2026-03-06"),
    ("days alone", "2026-03-07T03:00:00Z", window("-", days=WORKDAYS), "2026-03-06"),
    ("days alone, on another", "2026-03-07T12:00:00Z", window("-", days=WORKDAYS), None),
    ("until midnight", "2026-03-07T04:59:59Z", window("15:00-00:00"), "2026-03-06"),
    ("after midnight", "2026-03-07T05:00:00Z", window("15:00-00:00"), None),
    ("a zone that is not there any more", "2026-03-06T14:30:00Z", window("09:30-16:00", "Mars/Olympus"), None),
]


@pytest.mark.parametrize(
    ("instant", "found", "opened"), [vector[1:] for vector in VECTORS], ids=[vector[0] for vector in VECTORS]
)
def test_a_window_is_open_when_its_local_clock_says_so(instant: str, found: TradingWindow, opened: str | None) -> None:
    expected = date.fromisoformat(opened) if opened else None
    now = datetime.fromisoformat(instant)
    assert found.opened_on(now) == expected
    # Whatever zone the instant is told in.
    assert found.opened_on(now.astimezone(ZoneInfo("Asia/Tokyo"))) == expected


times = st.times().map(lambda at: at.replace(microsecond=0))
instants = st.timedeltas(timedelta(0), timedelta(days=18 * 365)).map(datetime(2020, 1, 1, tzinfo=UTC).__add__)
zones = st.sampled_from([None, "UTC", NEW_YORK, "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Casablanca"])
days = st.none() | st.sets(st.sampled_from(Day), min_size=1).map(lambda chosen: tuple(d for d in Day if d in chosen))


@st.composite
def windows(draw: st.DrawFn) -> TradingWindow:
    found = TradingWindow(
        trading_start=draw(st.none() | times),
        trading_end=draw(st.none() | times),
        timezone=draw(zones),
        days=draw(days),
    )
    return found if found.trading_end != found.start else window("09:30-16:00")


@given(times, times, instants, zones)
def test_a_window_and_the_one_from_its_end_to_its_start_share_every_instant_between_them(
    start: time, end: time, now: datetime, zone: str | None
) -> None:
    if start == end:
        return
    there = TradingWindow(trading_start=start, trading_end=end, timezone=zone)
    back = TradingWindow(trading_start=end, trading_end=start, timezone=zone)
    assert (there.opened_on(now) is None) is not (back.opened_on(now) is None)


@given(windows(), instants)
def test_whoever_compares_texts_finds_what_the_clock_says(found: TradingWindow, now: datetime) -> None:
    observed = found.observed(now)
    assert observed is not None
    assert any(start <= observed < end for start, end in found.spans()) is (found.opened_on(now) is not None)


@given(windows(), instants)
def test_between_now_and_the_next_change_nothing_changes(found: TradingWindow, now: datetime) -> None:
    opens, closes = found.next_changes(now)
    is_open = found.opened_on(now) is not None
    changes = closes if is_open else opens
    if found.start == time.min and found.trading_end is None and len(found.days or Day) == len(Day):
        assert (opens, closes) == (None, None)
        return
    assert changes is not None
    microsecond = timedelta(microseconds=1)
    assert (found.opened_on(changes) is not None) is not is_open
    for tenth in range(1, 10):
        assert (found.opened_on(now + (changes - microsecond - now) * tenth / 10) is not None) is is_open
    assert (found.opened_on(changes - microsecond) is not None) is is_open
    assert opens is not None
    assert found.opened_on(opens) is not None
    assert found.opened_on(opens - microsecond) is None


CHANGES = [
    ("on the same day", "2026-03-06T12:00:00Z", window("09:30-16:00"), "2026-03-06T14:30:00Z", "2026-03-06T21:00:00Z"),
    ("over a weekend", "2026-03-06T21:00:00Z", window("09:30-16:00", days=WORKDAYS), "2026-03-09T13:30:00Z", None),
    ("half in the hour left out", "2026-03-08T06:00:00Z", window("02:30-04:00"), "2026-03-08T07:00:00Z", None),
    ("all in the hour left out", "2026-03-08T06:00:00Z", window("02:15-02:45"), "2026-03-09T06:15:00Z", None),
    ("again in autumn", "2026-11-01T05:30:00Z", window("01:00-01:30"), "2026-11-01T06:00:00Z", "2026-11-01T06:30:00Z"),
]


@pytest.mark.parametrize(
    ("instant", "found", "opens", "closes"), [vector[1:] for vector in CHANGES], ids=[vector[0] for vector in CHANGES]
)
def test_the_next_opening_is_told_as_an_instant(
    instant: str, found: TradingWindow, opens: str, closes: str | None
) -> None:
    told = found.next_changes(datetime.fromisoformat(instant))
    assert told[0] == datetime.fromisoformat(opens)
    assert closes is None or told[1] == datetime.fromisoformat(closes)


def test_a_zone_that_is_not_known_here_opens_nothing_and_says_so() -> None:
    lost = window("09:30-16:00", "Mars/Olympus")
    now = datetime(2026, 3, 6, 15, tzinfo=UTC)
    assert (lost.opened_on(now), lost.observed(now), lost.next_changes(now)) == (None, None, (None, None))
