"""Pages of any list: how many rows, where the next begins, and cursors that open only for their own list."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar

from openbell_server.domain.errors import FieldProblem, InvalidParameter, Problem
from openbell_server.domain.events.cursors import seal, unseal

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 100
Row = TypeVar("Row")


class ListOrder(StrEnum):
    """Whether a list begins with its oldest or its newest row."""

    OLDEST_FIRST = "asc"
    NEWEST_FIRST = "desc"


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """next_cursor is None on the last page; last_cursor continues after the last row of this one."""

    rows: list[Row]
    next_cursor: str | None
    last_cursor: str | None


def bounded(limit: int | None) -> int:
    """How many rows a page has; raises InvalidParameter outside 1 to LIMIT_MAX."""
    if limit is None:
        return LIMIT_DEFAULT
    if not 1 <= limit <= LIMIT_MAX:
        raise InvalidParameter("limit", f"must be from 1 to {LIMIT_MAX}", "out_of_range")
    return limit


def start_of(cursor_key: bytes, scope: str, cursor: str | None) -> int:
    """The row number after which the page begins; raises Problem for a cursor of another list."""
    if cursor is None:
        return 0
    number = unseal(cursor_key, scope, cursor)
    if number is None:
        wrong = FieldProblem("/next_cursor", "invalid", "must be a cursor that an earlier page of this list gave")
        raise Problem("invalid_cursor", "this cursor was not given for this list", (wrong,))
    return number


@dataclass(frozen=True, slots=True)
class Scan:
    """The numbers that one page looks at; the next page continues after the one that it reached."""

    numbers: range
    reached: int
    # Whether no later page has anything to look at.
    is_all: bool


def scan(there: range, after: int, most: int, order: ListOrder) -> Scan:
    """At most so many numbers of those that are there, after those of earlier pages; `after` is 0 on the first page."""
    if order is ListOrder.NEWEST_FIRST:
        stop = min(there.stop, after or there.stop)
        start = min(stop, max(there.start, stop - most))
        return Scan(range(start, stop), start, start == there.start)
    start = max(after + 1, there.start)
    stop = max(start, min(there.stop, start + most))
    return Scan(range(start, stop), stop - 1, stop >= there.stop)


def page_of(
    cursor_key: bytes, scope: str, cursor: str | None, rows: int, found: Sequence[tuple[int, Row]]
) -> Page[Row]:
    """A page of numbered rows; the caller reads one row more than it shows, to know whether more follow."""
    shown = found[:rows]
    # An empty page returns the cursor it began at, so a client that polls a list keeps its position.
    last = seal(cursor_key, scope, shown[-1][0]) if shown else cursor
    return Page([row for _, row in shown], last if len(found) > rows else None, last)
