"""Time zones read anew from their compiled files (RFC 9636), in whole numbers: nothing of it is the code under test."""

import re
import struct
from bisect import bisect_right
from dataclasses import dataclass
from importlib import resources

DAY = 86_400
_OFFSET = r"[+-]?\d{1,3}(?::\d{2}){0,2}"
_NAME = r"(?:<[^>]+>|[A-Za-z]{3,})"
_RULE = re.compile(
    rf"({_NAME})({_OFFSET})(?:({_NAME})({_OFFSET})?,([^,/]+)(?:/({_OFFSET}))?,([^,/]+)(?:/({_OFFSET}))?)?"
)


@dataclass(frozen=True, slots=True)
class ZoneFile:
    """When the offset of a zone changes, and what it is then; both in seconds, by UTC."""

    changes: tuple[int, ...]
    # One more than there are changes: the first is what was before all of them.
    offsets: tuple[int, ...]

    def offset(self, instant: int) -> int:
        """What local time is ahead of UTC."""
        return self.offsets[bisect_right(self.changes, instant)]


def zone_names() -> list[str]:
    """Every name in the package."""
    return resources.files("tzdata").joinpath("zones").read_text().split()


def read_zone(name: str, last_year: int) -> ZoneFile:
    """A zone, with what its rule says of the years to come."""
    data = resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    # The first block is of 32 bits, for programs of long ago.
    start = 44 + _length(data, 0, 4)
    isutcnt, isstdcnt, leapcnt, timecnt, typecnt, charcnt = _counts(data, start)
    assert leapcnt == 0
    place = start + 44
    times = struct.unpack_from(f">{timecnt}q", data, place)
    kinds = data[place + 8 * timecnt : place + 9 * timecnt]
    types = [struct.unpack_from(">i?B", data, place + 9 * timecnt + 6 * each)[0] for each in range(typecnt)]
    footer = data[start + 44 + 9 * timecnt + 6 * typecnt + charcnt + isstdcnt + isutcnt :].decode().strip("\n")
    found = [(at, types[kind]) for at, kind in zip(times, kinds, strict=True)]
    first = types[0]
    if footer:
        begins = found[-1][0] if found else -(1 << 62)
        found += [each for each in _by_rule(footer, last_year) if each[0] > begins]
        if not found:
            first = -_seconds(_parts(footer)[1])
    changes, offsets = [], [first]
    for at, offset in found:
        if offset != offsets[-1]:
            changes.append(at)
            offsets.append(offset)
    return ZoneFile(tuple(changes), tuple(offsets))


def _counts(data: bytes, start: int) -> tuple[int, ...]:
    assert data[start : start + 4] == b"TZif"
    return struct.unpack_from(">6l", data, start + 20)


def _length(data: bytes, start: int, width: int) -> int:
    isutcnt, isstdcnt, leapcnt, timecnt, typecnt, charcnt = _counts(data, start)
    return timecnt * (width + 1) + typecnt * 6 + charcnt + leapcnt * (width + 4) + isstdcnt + isutcnt


def _parts(footer: str) -> tuple[str, ...]:
    matched = _RULE.fullmatch(footer)
    assert matched is not None, footer
    return tuple(part or "" for part in matched.groups())


def _by_rule(footer: str, last_year: int) -> list[tuple[int, int]]:
    """Changes from 1970 on by a rule such as EST5EDT,M3.2.0,M11.1.0; its offsets are behind UTC, not ahead."""
    _, standard, summer_name, summer, starts, start_time, ends, end_time = _parts(footer)
    if not summer_name:
        return []
    usual = -_seconds(standard)
    ahead = -_seconds(summer) if summer else usual + 3_600
    found = []
    for year in range(1970, last_year + 1):
        found.append((_day(year, starts) * DAY + _seconds(start_time or "2") - usual, ahead))
        found.append((_day(year, ends) * DAY + _seconds(end_time or "2") - ahead, usual))
    return sorted(found)


def _seconds(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    parts = [int(part) for part in text.lstrip("+-").split(":")]
    return sign * sum(part * unit for part, unit in zip(parts, (3_600, 60, 1), strict=False))


def _day(year: int, rule: str) -> int:
    """The day of a year that a rule means, in days since 1970."""
    if rule.startswith("M"):
        month, week, weekday = (int(part) for part in rule[1:].split("."))
        first = days_since_1970(year, month, 1)
        day = first + (weekday - (first + 4)) % 7 + 7 * (week - 1)
        after = days_since_1970(year + month // 12, month % 12 + 1, 1)
        return day if day < after else day - 7
    if rule.startswith("J"):
        number = int(rule[1:])
        # The 29th of February is never counted.
        leaps = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
        return days_since_1970(year, 1, 1) + number - 1 + (1 if leaps and number >= 60 else 0)
    return days_since_1970(year, 1, 1) + int(rule)


def days_since_1970(year: int, month: int, day: int) -> int:
    """By the Gregorian calendar, counted from March so that the leap day is the last."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def opened_on(zone: ZoneFile, micros: int, start: int, end: int | None, weekdays: frozenset[int] | None) -> int | None:
    """The day since 1970 on which a window that is open at an instant opened; its times are seconds of a day."""
    local = micros + zone.offset(micros // 1_000_000) * 1_000_000
    day, at = divmod(local, DAY * 1_000_000)
    for ago in (0, 1):
        opens = start * 1_000_000
        lasts_to = (DAY if end is None else end + (DAY if end < start else 0)) * 1_000_000
        if opens <= at + ago * DAY * 1_000_000 < lasts_to:
            opened = day - ago
            # 1970 began on a Thursday; Monday is 0.
            return opened if weekdays is None or (opened + 3) % 7 in weekdays else None
    return None
