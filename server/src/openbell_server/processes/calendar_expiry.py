"""Warns before a market calendar ends, because after its last day the rules cannot be evaluated."""

from datetime import UTC, datetime
from typing import Final

import structlog

from openbell_server.domain.markets.calendars import MarketCalendars
from openbell_server.processes.operations_port import Operations

WARNED_DAYS: Final = 90


def watch_calendars(operations: Operations, calendars: MarketCalendars) -> None:
    """Report the remaining days of each calendar, and log at start which end soon."""

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
    """Days left of each calendar that ends within WARNED_DAYS or has ended."""
    return {name: days for name, days in calendars.days_left(now.date()).items() if days <= WARNED_DAYS}
