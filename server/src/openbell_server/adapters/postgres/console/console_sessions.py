"""Stores the sessions of the console."""

from collections.abc import Collection
from dataclasses import dataclass

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import PostgresStore, Role
from openbell_server.application.console.ports import SessionRow
from openbell_server.domain.access.console_sessions import IDLE_SECONDS, SESSIONS_PER_USER_MAX

PRUNED_ROWS_MAX = 500
_queries = named_queries.load("console_sessions")


@dataclass(frozen=True, slots=True)
class PostgresConsoleSessions(PostgresStore):
    """Implements SessionStore."""

    async def open(
        self, session_hash: bytes, issuer: str, subject: str, sealed_tokens: bytes, token_seconds: float, seconds: float
    ) -> None:
        await self._one_across(
            Role.CONSOLE,
            _queries.open_session,
            session_hash=session_hash,
            issuer=issuer,
            subject=subject,
            sealed_tokens=sealed_tokens,
            token_seconds=token_seconds,
            session_seconds=seconds,
            others_max=SESSIONS_PER_USER_MAX - 1,
        )

    async def read(self, session_hash: bytes) -> SessionRow | None:
        row = await self._one_across(
            Role.CONSOLE, _queries.read_session, session_hash=session_hash, idle_seconds=IDLE_SECONDS
        )
        return None if row is None else SessionRow(**row)

    async def live_among(self, session_hashes: Collection[bytes]) -> frozenset[bytes]:
        rows = await self._rows_across(
            Role.CONSOLE, _queries.live_sessions, session_hashes=list(session_hashes), idle_seconds=IDLE_SECONDS
        )
        return frozenset(row["session_hash"] for row in rows)

    async def note_use(self, session_hash: bytes) -> None:
        await self._one_across(
            Role.CONSOLE, _queries.note_session_use, session_hash=session_hash, idle_seconds=IDLE_SECONDS
        )

    async def claim_refresh(self, session_hash: bytes, refreshes: int, seconds: float) -> bool:
        claimed = await self._one_across(
            Role.CONSOLE,
            _queries.claim_refresh,
            session_hash=session_hash,
            refreshes=refreshes,
            claim_seconds=seconds,
        )
        return claimed is not None

    async def save_tokens(
        self, session_hash: bytes, refreshes: int, sealed_tokens: bytes, token_seconds: float
    ) -> None:
        await self._one_across(
            Role.CONSOLE,
            _queries.save_tokens,
            session_hash=session_hash,
            refreshes=refreshes,
            sealed_tokens=sealed_tokens,
            token_seconds=token_seconds,
        )

    async def end(self, session_hash: bytes) -> None:
        await self._one_across(Role.CONSOLE, _queries.end_session, session_hash=session_hash)

    async def end_all_of_user(self, session_hash: bytes) -> None:
        await self._one_across(Role.CONSOLE, _queries.end_sessions_of_user, session_hash=session_hash)

    async def prune(self) -> int:
        deleted: int = await self._one_across(
            Role.CONSOLE, _queries.prune_sessions, idle_seconds=IDLE_SECONDS, row_limit=PRUNED_ROWS_MAX
        )
        return deleted

    async def check_writing(self) -> None:
        """Raises unless the database takes writes of the console."""
        await self._one_across(Role.CONSOLE, _queries.check_writing_sessions)
