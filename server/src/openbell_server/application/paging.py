"""Pages of any list: how many rows, where the next begins, and cursors that open only for their own list."""

from typing import Final

from openbell_server.domain.cursors import seal, unseal
from openbell_server.domain.errors import FieldProblem, InvalidParameter, Problem

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 100


def bounded(limit: int | None) -> int:
    """How many rows a page has."""
    if limit is None:
        return LIMIT_DEFAULT
    if not 1 <= limit <= LIMIT_MAX:
        raise InvalidParameter("limit", f"must be from 1 to {LIMIT_MAX}", "out_of_range")
    return limit


def start_of(cursor_key: bytes, scope: str, cursor: str | None) -> int:
    """The number after which the page begins."""
    if cursor is None:
        return 0
    number = unseal(cursor_key, scope, cursor)
    if number is None:
        wrong = FieldProblem("/next_cursor", "invalid", "must be a cursor that an earlier page of this list gave")
        raise Problem("invalid_cursor", "this cursor was not given for this list", (wrong,))
    return number


def cursors_of(
    cursor_key: bytes, scope: str, cursor: str | None, numbers: list[int], rows: int
) -> tuple[str | None, str | None]:
    """Next cursor, absent on the last page, and last cursor, which goes on from the last row of this one.

    The numbers are those of the rows that were found, of which there is one more than shown if there are more.
    """
    shown = numbers[:rows]
    # An empty page goes on from where it began: who follows a list never loses its place.
    last = seal(cursor_key, scope, shown[-1]) if shown else cursor
    return (last if len(numbers) > rows else None), last
