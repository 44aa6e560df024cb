"""Market sessions that operators changed."""

from typing import Protocol

from openbell_server.domain.markets.calendars import SessionChange


class SessionChangeStore(Protocol):
    async def session_changes(self) -> tuple[SessionChange, ...]: ...
