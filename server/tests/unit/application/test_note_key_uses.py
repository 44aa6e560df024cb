"""The use of a key is written at once and then once a minute, and no request waits for it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from openbell_server.application.access import note_key_uses
from openbell_server.application.access.note_key_uses import NOTE_SECONDS, NoteKeyUses


@dataclass
class Writes:
    """What was written, while `open` is set."""

    seconds: float = 0.0
    written: list[list[str]] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)
    trouble: Exception | None = None

    async def write(self, key_ids: Sequence[str]) -> None:
        await self.open.wait()
        self.written.append(list(key_ids))
        if self.trouble is not None:
            raise self.trouble

    def note(self) -> NoteKeyUses:
        return NoteKeyUses(self.write, lambda: self.seconds)


async def end(note: NoteKeyUses) -> None:
    if note._writing is not None:
        await note._writing


async def test_many_uses_of_a_minute_are_one_write_of_each_key() -> None:
    writes = Writes()
    note = writes.note()
    for _ in range(100):
        note("a")
        note("b")
    writes.open.set()
    await end(note)
    assert writes.written == [["a", "b"]]
    writes.seconds = NOTE_SECONDS - 0.1
    note("a")
    await end(note)
    writes.seconds = NOTE_SECONDS
    note("a")
    await end(note)
    assert writes.written == [["a", "b"], ["a"]]


async def test_keys_used_during_a_write_are_written_after_it_and_one_write_runs_at_a_time() -> None:
    writes = Writes()
    note = writes.note()
    note("a")
    await asyncio.sleep(0)
    note("b")
    note("c")
    writes.open.set()
    await end(note)
    assert writes.written == [["a"], ["b", "c"]]


async def test_a_write_that_fails_is_lost_and_the_next_minute_writes_again() -> None:
    writes = Writes(trouble=OSError("gone"))
    writes.open.set()
    note = writes.note()
    note("a")
    await end(note)
    writes.seconds, writes.trouble = NOTE_SECONDS, None
    note("a")
    await end(note)
    assert writes.written == [["a"], ["a"]]


async def test_the_memory_of_keys_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(note_key_uses, "KEYS_MAX", 3)
    writes = Writes()
    writes.open.set()
    note = writes.note()
    for number in range(10):
        note(str(number))
    assert len(note._noted_at) <= 3
    await end(note)
