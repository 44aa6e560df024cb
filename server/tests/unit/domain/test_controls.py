"""Controls of a symbol: when a window is open, what every rule says, and which patches may be stored."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbell_server.domain.accounts import Environment
from openbell_server.domain.controls import (
    OUTSIDE_TRADING_WINDOW,
    STALE_ORDER,
    SYMBOL_DISABLED,
    TIME_FIELDS,
    Day,
    DoorFacts,
    ManualControl,
    Recorded,
    SymbolControls,
    TimeControl,
    checked_manual,
    evaluate,
    patch_time,
    refusal_at_door,
    window_opened_on,
)
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.names import REASON_LENGTH_MAX

NEW_YORK = "America/New_York"
WORKDAYS = (Day.MONDAY, Day.TUESDAY, Day.WEDNESDAY, Day.THURSDAY, Day.FRIDAY)
NOON = datetime(2026, 3, 6, 12, tzinfo=UTC)


def a_window(window: str, zone: str | None = NEW_YORK, days: tuple[Day, ...] | None = None) -> TimeControl:
    start, _, end = window.partition("-")
    return TimeControl(
        trading_start=time.fromisoformat(start) if start else None,
        trading_end=time.fromisoformat(end) if end else None,
        timezone=zone,
        days=days,
    )


def recorded(control: Any, version: int = 7) -> Recorded[Any]:
    return Recorded(control=control, version=version, created_at=NOON, updated_at=NOON)


VECTORS = [
    ("open edge, winter", "2026-03-06T14:30:00Z", a_window("09:30-16:00"), "2026-03-06"),
    ("a microsecond before", "2026-03-06T14:29:59.999999Z", a_window("09:30-16:00"), None),
    ("a microsecond before the end", "2026-03-06T20:59:59.999999Z", a_window("09:30-16:00"), "2026-03-06"),
    ("close edge", "2026-03-06T21:00:00Z", a_window("09:30-16:00"), None),
    ("before the clocks change", "2026-03-06T13:30:00Z", a_window("09:30-16:00"), None),
    ("after the clocks changed", "2026-03-09T13:30:00Z", a_window("09:30-16:00"), "2026-03-09"),
    ("overnight, before midnight", "2026-03-06T04:59:59Z", a_window("20:00-04:00"), "2026-03-05"),
    ("overnight, last second", "2026-03-06T08:59:59Z", a_window("20:00-04:00"), "2026-03-05"),
    ("overnight, end edge", "2026-03-06T09:00:00Z", a_window("20:00-04:00"), None),
    ("Saturday of Friday's session", "2026-03-07T06:00:00Z", a_window("20:00-04:00", days=WORKDAYS), "2026-03-06"),
    ("Sunday evening", "2026-03-02T02:00:00Z", a_window("20:00-04:00", days=WORKDAYS), None),
    ("Monday of Sunday's session", "2026-03-02T06:00:00Z", a_window("20:00-04:00", days=WORKDAYS), None),
    ("before the hour spring leaves out", "2026-03-08T06:59:59Z", a_window("02:15-02:45"), None),
    ("after the hour spring leaves out", "2026-03-08T07:00:00Z", a_window("02:15-02:45"), None),
    ("first pass of autumn's hour", "2026-11-01T05:30:00Z", a_window("01:00-02:00"), "2026-11-01"),
    ("second pass of autumn's hour", "2026-11-01T06:30:00Z", a_window("01:00-02:00"), "2026-11-01"),
    ("after autumn's hour", "2026-11-01T07:00:00Z", a_window("01:00-02:00"), None),
    ("overnight into spring", "2026-03-08T07:30:00Z", a_window("20:00-04:00"), "2026-03-07"),
    ("start only", "2026-03-06T20:00:01Z", a_window("15:00-"), "2026-03-06"),
    ("start only, before", "2026-03-06T19:59:59Z", a_window("15:00-"), None),
    ("end only", "2026-03-06T05:00:00Z", a_window("-12:00"), "2026-03-06"),
    ("end only, at the end", "2026-03-06T17:00:00Z", a_window("-12:00"), None),
    ("half-hour zone", "2026-03-06T03:45:00Z", a_window("09:15-15:30", "Asia/Kolkata"), "2026-03-06"),
    ("no zone is UTC", "2026-03-06T09:30:00Z", a_window("09:30-16:00", None), "2026-03-06"),
    ("days alone", "2026-03-07T03:00:00Z", a_window("-", days=WORKDAYS), "2026-03-06"),
    ("days alone, on another", "2026-03-07T12:00:00Z", a_window("-", days=WORKDAYS), None),
    ("until midnight", "2026-03-07T04:59:59Z", a_window("15:00-00:00"), "2026-03-06"),
    ("after midnight", "2026-03-07T05:00:00Z", a_window("15:00-00:00"), None),
    ("a zone that is not there any more", "2026-03-06T14:30:00Z", a_window("09:30-16:00", "Mars/Olympus"), None),
]


@pytest.mark.parametrize(
    ("instant", "control", "opened"), [vector[1:] for vector in VECTORS], ids=[vector[0] for vector in VECTORS]
)
def test_a_window_is_open_when_its_local_clock_says_so(instant: str, control: TimeControl, opened: str | None) -> None:
    expected = date.fromisoformat(opened) if opened else None
    now = datetime.fromisoformat(instant)
    assert window_opened_on(control, now) == expected
    # Whatever zone the instant is told in.
    assert window_opened_on(control, now.astimezone(ZoneInfo("Asia/Tokyo"))) == expected


times = st.times().map(lambda at: at.replace(microsecond=0))
instants = st.timedeltas(timedelta(0), timedelta(days=20 * 365)).map(datetime(2020, 1, 1, tzinfo=UTC).__add__)
zones = st.sampled_from([None, "UTC", NEW_YORK, "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia"])
ages = st.none() | st.timedeltas(timedelta(0), timedelta(days=2))


@st.composite
def any_controls(draw: st.DrawFn) -> SymbolControls:
    manual = draw(st.none() | st.builds(ManualControl, manually_disabled=st.booleans(), manual_reason=st.none()))
    control = TimeControl(
        trading_start=draw(st.none() | times),
        trading_end=draw(st.none() | times),
        timezone=draw(zones),
        days=draw(st.none() | st.sets(st.sampled_from(Day), min_size=1).map(tuple)),
        stale_order_millis=draw(st.none() | st.integers(1, 86_400_000)),
    )
    return SymbolControls(
        manual=None if manual is None else recorded(manual),
        time=draw(st.none() | st.just(recorded(control, version=3))),
    )


@given(any_controls(), instants, ages, st.sampled_from(Environment))
def test_every_rule_that_speaks_is_reported_and_refuses_exactly_what_it_forbids(
    found: SymbolControls, now: datetime, age: timedelta | None, environment: Environment
) -> None:
    said = {finding.code: finding for finding in evaluate(found, now, age=age, environment=environment)}
    control = found.time.control if found.time else TimeControl()
    windowed = any((control.trading_start is not None, control.trading_end is not None, control.days is not None))
    limit = control.stale_order_millis or (60_000 if environment is Environment.LIVE else None)
    expected = {}
    if found.manual is not None:
        expected[SYMBOL_DISABLED] = found.manual.control.manually_disabled
    if windowed:
        expected[OUTSIDE_TRADING_WINDOW] = window_opened_on(control, now) is None
    if age is not None and limit is not None:
        expected[STALE_ORDER] = age > timedelta(milliseconds=limit)
    assert {code: finding.refuses for code, finding in said.items()} == expected
    assert all(finding.control_version in {7, 3} or finding.scope == "platform" for finding in said.values())


@given(times, times, instants, zones)
def test_a_window_and_the_one_from_its_end_to_its_start_share_every_instant_between_them(
    start: time, end: time, now: datetime, zone: str | None
) -> None:
    if start == end:
        return
    there = TimeControl(trading_start=start, trading_end=end, timezone=zone)
    back = TimeControl(trading_start=end, trading_end=start, timezone=zone)
    assert (window_opened_on(there, now) is None) is not (window_opened_on(back, now) is None)


def test_a_refusal_says_the_limit_what_was_observed_and_which_version() -> None:
    found = SymbolControls(
        manual=recorded(ManualControl(manually_disabled=True, manual_reason="earnings")),
        time=recorded(
            TimeControl(trading_start=time(9, 30), timezone=NEW_YORK, days=WORKDAYS, stale_order_millis=500), version=2
        ),
    )
    said = evaluate(found, NOON, age=timedelta(microseconds=500_001))
    assert [
        (finding.code, finding.scope, finding.verdict, finding.limit, finding.observed, finding.control_version)
        for finding in said
    ] == [
        (SYMBOL_DISABLED, "symbol", "REFUSED", "enabled", "disabled: earnings", 7),
        (
            OUTSIDE_TRADING_WINDOW,
            "symbol",
            "REFUSED",
            "09:30:00-24:00:00 America/New_York mon,tue,wed,thu,fri",
            "2026-03-06T07:00:00-05:00",
            2,
        ),
        (STALE_ORDER, "symbol", "REFUSED", 500, 501, 2),
    ]


def facts(**overrides: Any) -> DoorFacts:
    plain: dict[str, Any] = {
        "now": NOON,
        "queued_at": NOON,
        "environment": Environment.PAPER,
        "control_epoch": 1,
        "organization_disabled": False,
        "account_disabled": False,
        "principal_revoked": False,
    }
    return DoorFacts(**plain | overrides)


@pytest.mark.parametrize(
    ("overrides", "refusal"),
    [
        ({}, None),
        ({"organization_disabled": True}, "ORGANIZATION_DISABLED"),
        ({"account_disabled": True}, "ACCOUNT_DISABLED"),
        ({"principal_revoked": True}, "PRINCIPAL_REVOKED"),
        ({"queued_at": NOON - timedelta(days=1)}, None),
        ({"environment": Environment.LIVE, "queued_at": NOON - timedelta(seconds=60)}, None),
        ({"environment": Environment.LIVE, "queued_at": NOON - timedelta(seconds=60, microseconds=1)}, "STALE_ORDER"),
    ],
    ids=["nothing", "organization", "account", "principal", "old on paper", "a minute on live", "older on live"],
)
def test_the_door_knows_what_was_switched_off_and_what_is_old(overrides: dict[str, Any], refusal: str | None) -> None:
    assert refusal_at_door(facts(**overrides), SymbolControls(), account_ready=True) == refusal


def test_the_door_is_shut_for_what_is_new_while_the_account_is_not_ready() -> None:
    assert refusal_at_door(facts(), SymbolControls(), account_ready=False) == "ACCOUNT_NOT_READY"


def test_a_limit_that_is_set_takes_the_place_of_the_default() -> None:
    longer = SymbolControls(time=recorded(TimeControl(stale_order_millis=120_000)))
    old = facts(environment=Environment.LIVE, queued_at=NOON - timedelta(seconds=100))
    assert refusal_at_door(old, longer, account_ready=True) is None


def test_a_patch_changes_what_it_names_and_nothing_else() -> None:
    before = a_window("09:30-16:00", days=WORKDAYS)
    after = patch_time(before, TimeControl(trading_start=time(8), days=(Day.SUNDAY, Day.MONDAY)), ["trading_end"])
    assert after == TimeControl(trading_start=time(8), timezone=NEW_YORK, days=(Day.MONDAY, Day.SUNDAY))
    assert patch_time(after, TimeControl(), []) == after
    assert patch_time(after, TimeControl(), TIME_FIELDS) == TimeControl()


WRONG_PATCHES = [
    ("/timezone", {"timezone": "America/Nowhere"}, ()),
    ("/timezone", {"timezone": "localtime"}, ()),
    ("/timezone", {"timezone": "../../etc/localtime"}, ()),
    ("/timezone", {"timezone": "posix/America/New_York"}, ()),
    ("/timezone", {"timezone": "america/new_york"}, ()),
    ("/timezone", {"timezone": ""}, ()),
    ("/days", {"days": ()}, ()),
    ("/stale_order_millis", {"stale_order_millis": 0}, ()),
    ("/stale_order_millis", {"stale_order_millis": -1}, ()),
    ("/stale_order_millis", {"stale_order_millis": 86_400_001}, ()),
    ("/trading_end", {"trading_start": time(16)}, ()),
    ("/trading_end", {"trading_end": time(0)}, ("trading_start",)),
    ("/stale_order_millis", {"stale_order_millis": 5}, ("stale_order_millis",)),
    ("/clear/1", {}, ("days", "on_close")),
    ("/clear/0", {}, ("version",)),
]


@pytest.mark.parametrize(
    ("pointer", "change", "clear"), WRONG_PATCHES, ids=[f"{n} {patch[0]}" for n, patch in enumerate(WRONG_PATCHES)]
)
def test_what_nobody_could_mean_is_not_stored(pointer: str, change: dict[str, Any], clear: tuple[str, ...]) -> None:
    with pytest.raises(InvalidCommand) as refused:
        patch_time(a_window("09:30-16:00"), TimeControl(**change), clear)
    assert [error.pointer for error in refused.value.errors] == [pointer]


@pytest.mark.parametrize("reason", ["", "x" * 501, "two\nlines", "nul\0"], ids=["empty", "long", "lines", "nul"])
def test_a_reason_is_printable_and_short(reason: str) -> None:
    with pytest.raises(InvalidCommand):
        checked_manual(ManualControl(manually_disabled=True, manual_reason=reason))
    longest = ManualControl(manually_disabled=True, manual_reason="ü" * REASON_LENGTH_MAX)
    assert checked_manual(longest) is longest
