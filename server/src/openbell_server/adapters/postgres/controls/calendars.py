"""Stores operators' changes of market sessions, which override the built-in calendars."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date
from typing import Final
from uuid import UUID

from openbell_server.adapters.postgres import audit_log, named_queries
from openbell_server.adapters.postgres.connection import Connection, DatabaseClock, PostgresStore, Role, transaction
from openbell_server.domain.controls.rules import PLATFORM_ID
from openbell_server.domain.markets.calendars import Session, SessionChange

# For all calendars together; the newest days are read.
CHANGES_MAX: Final = 1_000
_queries = named_queries.load("calendars")
_rules = named_queries.load("control_rules")


async def read_session_changes(connection: Connection) -> tuple[SessionChange, ...]:
    """The changes in force, read in the caller's transaction."""
    return tuple(
        [
            SessionChange(**{**row, "session": Session(row["session"])})
            async for row in _queries.session_changes(connection, row_limit=CHANGES_MAX)
        ]
    )


@dataclass(frozen=True, slots=True)
class PostgresSessionChanges(PostgresStore):
    """Implements SessionChangeStore."""

    async def session_changes(self) -> tuple[SessionChange, ...]:
        async with transaction(self.pool, Role.READER) as connection:
            return await read_session_changes(connection)


@dataclass(frozen=True, slots=True)
class PostgresCalendarOperators(PostgresStore):
    """Changes sessions for one operator. Each change starts new epochs, so commands are evaluated again."""

    operator: str

    async def session_changes(self) -> tuple[SessionChange, ...]:
        async with transaction(self.pool, Role.OPERATOR) as connection:
            return await read_session_changes(connection)

    async def change(self, changes: Sequence[SessionChange]) -> None:
        (audit_id,) = await DatabaseClock(self.pool).new_ids(1)
        async with transaction(self.pool, Role.OPERATOR, PLATFORM_ID) as connection:
            await _begin(connection)
            for each in changes:
                await _queries.change_session(
                    connection,
                    calendar=each.calendar,
                    trade_date=each.trade_date,
                    session=each.session,
                    is_reset=False,
                    opens_at=each.opens_at,
                    closes_at=each.closes_at,
                    reason=each.reason,
                    operator=self.operator,
                )
            await _rules.shut_doors(connection, whose=PLATFORM_ID)
            await self._audit(connection, audit_id, "calendars change", changes)

    async def reset(self, calendar: str, trade_date: date, reason: str) -> int:
        """Restore the built-in sessions of a day; returns how many sessions had been changed."""
        (audit_id,) = await DatabaseClock(self.pool).new_ids(1)
        async with transaction(self.pool, Role.OPERATOR, PLATFORM_ID) as connection:
            await _begin(connection)
            found = await read_session_changes(connection)
            mine = [each for each in found if (each.calendar, each.trade_date) == (calendar, trade_date)]
            for each in mine:
                await _queries.change_session(
                    connection,
                    calendar=calendar,
                    trade_date=trade_date,
                    session=each.session,
                    is_reset=True,
                    opens_at=None,
                    closes_at=None,
                    reason=reason,
                    operator=self.operator,
                )
            await _rules.shut_doors(connection, whose=PLATFORM_ID)
            if mine:
                reset = [replace(each, opens_at=None, closes_at=None, reason=reason) for each in mine]
                await self._audit(connection, audit_id, "calendars reset", reset)
        return len(mine)

    async def _audit(
        self, connection: Connection, audit_id: UUID, operation: str, changes: Sequence[SessionChange]
    ) -> None:
        sessions = [
            {
                "trade_date": each.trade_date.isoformat(),
                "session": each.session,
                # In UTC; null if the session is closed, or has its built-in hours again.
                "opens_at": each.opens_at and each.opens_at.astimezone(UTC).isoformat(),
                "closes_at": each.closes_at and each.closes_at.astimezone(UTC).isoformat(),
                "reason": each.reason,
            }
            for each in changes
        ]
        calendar = changes[0].calendar
        who = ("OPERATOR", self.operator)
        await audit_log.append(
            connection, PLATFORM_ID, audit_id, who, operation, calendar, None, {"sessions": sessions}
        )


async def _begin(connection: Connection) -> None:
    """Wait for other changes of the platform, then start new epochs, so commands are evaluated again."""
    await _rules.take_turn(connection, whose=PLATFORM_ID)
    await _rules.begin_epochs_across_organizations(connection)
