"""The market's day: trading never pauses, and every day has an opening and a closing auction."""

from datetime import UTC, datetime, time, timedelta
from typing import Final

from openbell_exchange.terms import TimeInForce

OPEN: Final = time(14, 30)
CLOSE: Final = time(21, 0)
# An order that arrives later than this before an auction waits for the next day's.
CUT_OFF: Final = timedelta(hours=1)
_BELLS: Final = {
    TimeInForce.DAY: CLOSE,
    TimeInForce.EXT: CLOSE,
    TimeInForce.AT_OPEN: OPEN,
    TimeInForce.AT_CLOSE: CLOSE,
}


def due_at(time_in_force: TimeInForce, now: datetime) -> datetime | None:
    """When an order that arrives now ends or meets its auction; None: never."""
    bell = _BELLS.get(time_in_force)
    if bell is None:
        return None
    earliest = now.astimezone(UTC) + CUT_OFF
    today = datetime.combine(earliest.date(), bell, UTC)
    return today if today >= earliest else today + timedelta(days=1)
