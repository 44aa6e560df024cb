"""Notes when API keys were used, without a statement for each request."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

NOTE_SECONDS: Final = 60.0
KEYS_MAX: Final = 10_000


class NoteKeyUses:
    """Writes the use of a key at once, and then at most once a minute; requests do not wait for it."""

    def __init__(self, write: Callable[[Sequence[str]], Awaitable[None]], monotonic: Callable[[], float]) -> None:
        self._write = write
        self._monotonic = monotonic
        self._noted_at: dict[str, float] = {}
        self._due: set[str] = set()
        self._writing: asyncio.Future[None] | None = None

    def __call__(self, key_id: str) -> None:
        now = self._monotonic()
        if now - self._noted_at.get(key_id, -NOTE_SECONDS) < NOTE_SECONDS:
            return
        if len(self._noted_at) >= KEYS_MAX:
            self._noted_at.clear()
        self._noted_at[key_id] = now
        self._due.add(key_id)
        if self._writing is None:
            self._writing = asyncio.ensure_future(self._write_due())

    async def _write_due(self) -> None:
        try:
            while self._due:
                due, self._due = self._due, set()
                await self._write(sorted(due))
        except Exception:  # noqa: BLE001, S110 - a note may be lost; the next minute writes another
            pass
        finally:
            self._writing = None
