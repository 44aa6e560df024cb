"""Trading windows: times of day in a time zone, on all days or some of them."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

from openbell_server.domain.time_zones import DEFAULT_ZONE, zone_of


class Day(StrEnum):
    """A day of the week, in the order of the standard library."""

    MONDAY = "MON"
    TUESDAY = "TUE"
    WEDNESDAY = "WED"
    THURSDAY = "THU"
    FRIDAY = "FRI"
    SATURDAY = "SAT"
    SUNDAY = "SUN"


DAYS: Final = tuple(Day)
# A window on one weekday opens at least once in 15 days, even if a clock change skips that day once.
_DAYS_AHEAD: Final = 15
_DAY_SECONDS: Final = 86_400
_WEEK_SECONDS: Final = 7 * _DAY_SECONDS
_MIDNIGHT_AFTER: Final = "24:00:00"


@dataclass(frozen=True, slots=True, kw_only=True)
class TradingWindow:
    """When orders may be sent. The start is inclusive, the end exclusive; an end before the start is on the next day.

    `str()` gives the text that receipts store.
    """

    # None means midnight.
    trading_start: time | None = None
    trading_end: time | None = None
    # An IANA name; None in a rule that uses the account's zone.
    timezone: str | None = None
    # Days on which a window opens, in week order; None means all days.
    days: tuple[Day, ...] | None = None

    @property
    def start(self) -> time:
        return self.trading_start or time.min

    def opened_on(self, now: datetime) -> date | None:
        """The local date on which the currently open window opened; None outside of all windows.

        Only the instant is converted to local time. So a window inside the hour skipped when daylight saving time
        starts does not open that day, and a window inside the repeated hour when it ends opens twice.
        """
        zone = zone_of(self.timezone or DEFAULT_ZONE)
        if zone is None:
            return None
        local = now.astimezone(zone)
        opened = self._opened(local.date(), local.time())
        return opened if opened is not None and self._opens_on(opened) else None

    def spans(self) -> list[list[str]]:
        """Pairs of start and end, as texts that sort by time.

        With chosen days, each text begins with the ISO weekday (1 = Monday). A window over midnight becomes two spans.
        """
        ends = self.trading_end.isoformat() if self.trading_end is not None else _MIDNIGHT_AFTER
        start = self.start.isoformat()
        is_overnight = self.trading_end is not None and self.trading_end < self.start
        spans: list[list[str]] = []
        if self.days is None:
            spans = [["00:00:00", ends], [start, _MIDNIGHT_AFTER]] if is_overnight else [[start, ends]]
        for day in self.days or ():
            number = DAYS.index(day) + 1
            if not is_overnight:
                spans.append([f"{number}T{start}", f"{number}T{ends}"])
            else:
                spans.append([f"{number}T{start}", f"{number}T{_MIDNIGHT_AFTER}"])
                spans.append([f"{number % 7 + 1}T00:00:00", f"{number % 7 + 1}T{ends}"])
        return sorted(span for span in spans if span[0] != span[1])

    def covers(self, other: "TradingWindow") -> bool:
        """Whether it is open, by its local clock, whenever the other is by its own."""
        open_times = self.week()
        return all(any(start <= opens and closes <= end for start, end in open_times) for opens, closes in other.week())

    def week(self) -> list[tuple[int, int]]:
        """The open times of a week, in seconds since Monday's midnight; no two touch, but at the week's end."""
        opens = self.start.hour * 3600 + self.start.minute * 60 + self.start.second
        until = self.trading_end or time.min
        closes = until.hour * 3600 + until.minute * 60 + until.second
        length = (closes - opens) % _DAY_SECONDS or _DAY_SECONDS
        parts: list[tuple[int, int]] = []
        for day in self.days or DAYS:
            start = DAYS.index(day) * _DAY_SECONDS + opens
            parts.append((start, min(start + length, _WEEK_SECONDS)))
            if start + length > _WEEK_SECONDS:
                parts.append((0, start + length - _WEEK_SECONDS))
        merged: list[tuple[int, int]] = []
        for start, end in sorted(parts):
            if merged and start <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(merged[-1][1], end)
            else:
                merged.append((start, end))
        return merged

    def observed(self, now: datetime) -> str | None:
        """The local time in the format of the spans; None if the zone is unknown."""
        zone = zone_of(self.timezone or DEFAULT_ZONE)
        if zone is None:
            return None
        local = now.astimezone(zone)
        at = local.time().isoformat(timespec="microseconds")
        return at if self.days is None else f"{local.isoweekday()}T{at}"

    def next_changes(self, now: datetime) -> tuple[datetime | None, datetime | None]:
        """The next opening and the next close, both after `now`; None where there is none in two weeks."""
        return next_changes(lambda instant: self.opened_on(instant) is not None, self.edges(now), now)

    @property
    def restricts(self) -> bool:
        return (self.trading_start, self.trading_end, self.days) != (None, None, None)

    def __str__(self) -> str:
        ends = _MIDNIGHT_AFTER if self.trading_end is None else self.trading_end.isoformat()
        days = "" if self.days is None else f" {','.join(self.days)}"
        return f"{self.start.isoformat()}-{ends} {self.timezone or DEFAULT_ZONE}{days}"

    def _opened(self, today: date, at: time) -> date | None:
        start, end = self.start, self.trading_end
        if end is None or start < end:
            return today if start <= at and (end is None or at < end) else None
        if at >= start:
            return today
        return today - timedelta(days=1) if at < end else None

    def _opens_on(self, day: date) -> bool:
        return self.days is None or DAYS[day.weekday()] in self.days

    def edges(self, now: datetime) -> list[datetime]:
        """Every instant of the next two weeks at which the window may open or close, sorted."""
        zone = zone_of(self.timezone or DEFAULT_ZONE)
        if zone is None:
            return []
        marks = {time.min, self.start, self.trading_end or time.min}
        yesterday = now.astimezone(zone).date() - timedelta(days=1)
        edges = set(_changes_of_clock(zone, now.astimezone(UTC)))
        for ahead in range(_DAYS_AHEAD + 1):
            day = yesterday + timedelta(days=ahead)
            # A local time in the hour repeated when daylight saving time ends is two instants.
            local = (datetime.combine(day, mark, zone).replace(fold=fold) for mark in marks for fold in (0, 1))
            edges |= {each.astimezone(UTC) for each in local}
        return sorted(edge for edge in edges if edge > now)


def next_changes(
    is_open: Callable[[datetime], bool], edges: Iterable[datetime], now: datetime
) -> tuple[datetime | None, datetime | None]:
    """The next opening and the next close; changes happen only at `edges`, which are sorted."""
    opens, closes = None, None
    was_open = is_open(now)
    for edge in edges:
        opened = is_open(edge)
        if opened and not was_open:
            opens = opens or edge
        if was_open and not opened:
            closes = closes or edge
        if opens is not None and closes is not None:
            break
        was_open = opened
    return opens, closes


def _changes_of_clock(zone: ZoneInfo, now: datetime) -> Iterator[datetime]:
    """The clock changes of the zone in the next days, to the second."""
    instants = [now + step * timedelta(hours=12) for step in range(2 * _DAYS_AHEAD + 1)]
    for before, after in pairwise(instants):
        offset = before.astimezone(zone).utcoffset()
        if after.astimezone(zone).utcoffset() == offset:
            continue
        low, high = int(before.timestamp()), int(after.timestamp()) + 1
        while high - low > 1:
            middle = (low + high) // 2
            if datetime.fromtimestamp(middle, zone).utcoffset() == offset:
                low = middle
            else:
                high = middle
        yield datetime.fromtimestamp(high, UTC)


def in_week_order(days: Collection[Day] | None) -> tuple[Day, ...] | None:
    return None if days is None else tuple(day for day in DAYS if day in days)
