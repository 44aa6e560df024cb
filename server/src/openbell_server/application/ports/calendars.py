"""What use cases need to know of the days that operators changed."""

from typing import Protocol

from openbell_server.domain.market_calendars import SessionChange


class SessionChangeStore(Protocol):
    """Changes of market sessions by hand."""

    async def session_changes(self) -> tuple[SessionChange, ...]:
        """What applies now."""
