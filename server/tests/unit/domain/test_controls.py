"""Controls of a symbol: when a window is open, what every rule says, and which patches may be stored."""

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbell_server.domain.accounts import Environment
from openbell_server.domain.controls import (
    OUTSIDE_TRADING_WINDOW,
    STALE_ORDER,
    SYMBOL_DISABLED,
    TIME_FIELDS,
    DoorFacts,
    ManualControl,
    OnClose,
    Recorded,
    SymbolControls,
    TimeControl,
    checked_manual,
    evaluate,
    patch_time,
    refusal_at_door,
)
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.market_calendars import Session
from openbell_server.domain.names import REASON_LENGTH_MAX
from openbell_server.domain.trading_windows import Day

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
        expected[OUTSIDE_TRADING_WINDOW] = control.window("UTC").opened_on(now) is None
    if age is not None and limit is not None:
        expected[STALE_ORDER] = age > timedelta(milliseconds=limit)
    assert {code: finding.refuses for code, finding in said.items()} == expected
    assert all(finding.control_version in {7, 3} or finding.scope == "platform" for finding in said.values())


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
            "5T07:00:00.000000",
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
    ("/clear/1", {}, ("days", "on_open")),
    ("/clear/0", {}, ("version",)),
    ("/calendar", {"calendar": "XMOON"}, ()),
    ("/session", {"session": Session.EXTENDED}, ()),
    ("/on_close", {"on_close": OnClose.CANCEL}, ("trading_start", "trading_end")),
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
