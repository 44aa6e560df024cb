"""A seeded asyncio loop: virtual time, one ready handle a step, no threads, no sockets, and processes that can die."""

import asyncio
import contextlib
import hashlib
import heapq
import random
import selectors
from asyncio.events import Handle
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any, NoReturn
from weakref import WeakSet

# Whose code runs now; tasks, timers and callbacks inherit it. None is everything outside our processes.
PROCESS: ContextVar["Process | None"] = ContextVar("PROCESS", default=None)


class Killed(BaseException):
    """Ends the running step of a process that was killed inside it; nothing of that process is stepped again."""


class Deadlock(Exception):
    """Nothing is ready and no timer is set, or the run does not come to an end."""


@dataclass(eq=False, slots=True)
class Process:
    """One run of a simulated process: all that its code starts belongs to it, until it dies."""

    name: str
    is_dead: bool = False
    is_paused: bool = False
    held: list[Handle] = field(default_factory=list)
    context: Context = field(default_factory=copy_context)

    def __post_init__(self) -> None:
        """Mark the context in which everything of the process begins."""
        self.context.run(PROCESS.set, self)

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Begin a task of the process."""
        asyncio.get_running_loop().create_task(work, context=self.context.copy())


def is_alive() -> bool:
    """Whether the code that runs now may still have an effect on the world."""
    process = PROCESS.get()
    return process is None or not process.is_dead


class _NoSockets(selectors.BaseSelector):
    def register(self, *_: Any) -> NoReturn:
        raise RuntimeError("sockets escape the scheduler")

    def unregister(self, *_: Any) -> NoReturn:
        raise RuntimeError("sockets escape the scheduler")

    def select(self, timeout: float | None = None) -> list[Any]:
        del timeout
        return []

    def get_map(self) -> Mapping[Any, Any]:
        return {}


class _Task(asyncio.Task[Any]):
    """A task with a number: sets of tasks are gone through in the same order in every run."""

    def __init__(self, number: int, coroutine: Coroutine[Any, Any, Any], **named: Any) -> None:
        self.number = number
        super().__init__(coroutine, **named)

    def __hash__(self) -> int:
        return self.number


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Steps one handle at a time, chosen by the seed; time passes only when nothing is ready."""

    # What asyncio's own loop keeps, which its stubs do not tell of.
    _ready: deque[Any]
    _scheduled: list[Any]
    _asyncgens: "WeakSet[AsyncGenerator[Any, Any]]"

    def __init__(self, seed: int, steps_max: int) -> None:
        """Begin at second zero."""
        self._choose = random.Random(f"{seed}/steps")
        self._now = 0.0
        self._steps_max = steps_max
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._made = 0
        self.steps = 0
        self.trace = hashlib.sha256()
        super().__init__(_NoSockets())
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]
        self.set_exception_handler(lambda _loop, _context: None)

    def time(self) -> float:
        """Virtual seconds."""
        return self._now

    def run_in_executor(self, *_: Any) -> NoReturn:  # type: ignore[override]
        """No thread runs here."""
        raise RuntimeError("threads escape the scheduler")

    def call_soon_threadsafe(self, *_: Any, **__: Any) -> NoReturn:  # type: ignore[override]
        """Neither does one call."""
        raise RuntimeError("threads escape the scheduler")

    def _asyncgen_finalizer_hook(self, agen: AsyncGenerator[Any, Any]) -> None:
        """Only of a killed process is one collected unfinished: nobody cleans up, and the collector adds no step."""
        self._asyncgens.discard(agen)

    def pause(self, process: Process) -> None:
        """Step nothing of it until it is resumed."""
        process.is_paused = True

    def resume(self, process: Process) -> None:
        """Step again what was held up."""
        process.is_paused = False
        self._ready.extend(process.held)
        process.held.clear()

    def abandon(self) -> None:
        """Let go of tasks that will never be stepped again; nothing that their clean-up does counts any more."""
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with contextlib.suppress(BaseException):
                task.get_coro().close()
        self._tasks.clear()
        self.close()

    def _make_task(
        self, _: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], context: Context | None = None
    ) -> asyncio.Task[Any]:
        self._made += 1
        task = _Task(self._made, coroutine, loop=self, context=context)
        # Held here: a task of a killed process must not be collected, which would run its clean-up.
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task

    def _make_self_pipe(self) -> None:
        self._internal_fds = 0

    def _close_self_pipe(self) -> None:
        pass

    def _run_once(self) -> None:
        """One step; replaces the inner round of asyncio's own loop."""
        handle = self._next_handle()
        self.steps += 1
        if self.steps > self._steps_max:
            raise Deadlock(f"still going after {self._steps_max} steps")
        owner = handle._context.get(PROCESS)
        self.trace.update(f"{self._now:.6f} {owner.name if owner else ''} {self.steps}\n".encode())
        handle._run()

    def _next_handle(self) -> Any:
        ready, timers = self._ready, self._scheduled
        while True:
            while timers and (timers[0]._when <= self._now or timers[0]._cancelled):
                timer = heapq.heappop(timers)
                timer._scheduled = False
                if not timer._cancelled:
                    ready.append(timer)
            if not ready:
                if not timers:
                    raise Deadlock("nothing is ready and no timer is set")
                self._now = timers[0]._when
                continue
            chosen = int(self._choose.random() * len(ready))
            ready[chosen], ready[-1] = ready[-1], ready[chosen]
            handle = ready.pop()
            owner = handle._context.get(PROCESS)
            if handle._cancelled or (owner is not None and owner.is_dead):
                continue
            if owner is not None and owner.is_paused:
                owner.held.append(handle)
                continue
            return handle
