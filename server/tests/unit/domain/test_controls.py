"""Controls of a symbol: when a window is open, what every rule says, and which patches may be stored."""

from datetime import UTC, datetime, time
from typing import Any

import pytest

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls.symbol_controls import (
    TIME_FIELDS,
    DoorFacts,
    ManualControl,
    OnClose,
    Recorded,
    TimeControl,
    checked_manual,
    patch_time,
    switched_off,
)
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.markets.calendars import Session
from openbell_server.domain.markets.trading_windows import Day
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


def facts(**overrides: Any) -> DoorFacts:
    plain: dict[str, Any] = {
        "now": NOON,
        "queued_at": NOON,
        "environment": Environment.PAPER,
        "organization_epoch": 1,
        "account_epoch": 1,
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
    ],
    ids=["nothing", "organization", "account", "principal"],
)
def test_the_door_knows_what_was_switched_off(overrides: dict[str, Any], refusal: str | None) -> None:
    assert switched_off(facts(**overrides), account_ready=True) == refusal


def test_the_door_is_shut_for_what_is_new_while_the_account_is_not_ready() -> None:
    assert switched_off(facts(), account_ready=False) == "ACCOUNT_NOT_READY"


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
