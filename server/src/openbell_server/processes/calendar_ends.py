"""Market calendars end on a day that each names: told in time, for after it their rules cannot judge."""

from datetime import UTC, datetime
from typing import Final

import structlog

from openbell_server.domain.market_calendars import MarketCalendars
from openbell_server.processes.operations import Operations

WARNED_DAYS: Final = 90


def watch_calendars(operations: Operations, calendars: MarketCalendars) -> None:
    """Show for how long each is known, and say at the start which end soon."""

    def left() -> dict[str, int]:
        return calendars.days_left(datetime.now(UTC).date())

    operations.instruments.read(
        "gauge",
        "openbell_calendar_valid_days",
        "For how many days more the sessions of a market are known; after them its rules refuse live orders.",
        ("calendar",),
        lambda: {(name,): days for name, days in left().items()},
    )
    ending = ending_calendars(calendars, datetime.now(UTC))
    if ending:
        structlog.get_logger().warning("calendars_end_soon", days_left=ending)


def ending_calendars(calendars: MarketCalendars, now: datetime) -> dict[str, int]:
    """Those that end soon or have ended, each with its days left."""
    return {name: days for name, days in calendars.days_left(now.date()).items() if days <= WARNED_DAYS}
