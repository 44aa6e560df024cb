"""Promised heartbeats, and the context managers that send them while a program runs."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from datetime import datetime
from types import TracebackType
from typing import Final, Self

from openbell.connection import Connection
from openbell.controls.rules import Placed
from openbell.errors import OpenbellError, RateLimited, Unavailable, Unreachable
from openbell.requests import Request, change, path_of

HEARTBEATS: Final = path_of("controls", "heartbeats")
# Heartbeats are sent at this part of the timeout, so that two may be lost.
_PART: Final = 1 / 3
# The pause after a heartbeat that did not arrive.
_AGAIN_SECONDS: Final = 1.0
_TEMPORARY: Final = (Unreachable, Unavailable, RateLimited)


class Heartbeat(Placed, frozen=True, kw_only=True):
    """A promise of heartbeats: ARMED, or EXPIRED once one was missed. Times are by the database's clock."""

    status: str
    timeout_seconds: int
    cancel_working: bool
    # A key without control:loosen can neither disarm it nor make it less strict.
    required: bool
    armed_at: datetime
    last_beat_at: datetime
    expires_at: datetime
    principal_type: str
    principal_id: str


def heartbeat_scope(connection: Connection, account_id: str | None, api_key_id: str | None) -> dict[str, str]:
    """The query parameters of a promise; without an account or key: of the calling key."""
    if account_id and api_key_id:
        raise ValueError("Name one scope: account_id or api_key_id.")
    if account_id:
        return {"scope": "ACCOUNT", "account_id": connection.account(account_id)}
    return {"scope": "KEY", **({"api_key_id": api_key_id} if api_key_id else {})}


def heartbeat_request(scope: dict[str, str], timeout_seconds: int, *, cancel_working: bool) -> Request:
    body = {"timeout_seconds": timeout_seconds, "cancel_working": cancel_working}
    return change("PUT", HEARTBEATS, body, parameters=scope)


class _Renewals:
    """What both context managers have: when to send the next heartbeat, and whether to."""

    def __init__(self, timeout_seconds: int, is_healthy: Callable[[], bool]) -> None:
        self._pause = timeout_seconds * _PART
        self._is_healthy = is_healthy
        self._error: BaseException | None = None
        self._last: Heartbeat | None = None

    @property
    def last(self) -> Heartbeat:
        """The answer to the last heartbeat. Raises the error that ended the heartbeats, such as Conflict if one was
        missed.
        """
        if self._error is not None:
            raise self._error
        assert self._last is not None, "enter the block first"
        return self._last

    def _require_health(self) -> None:
        if not self._is_healthy():
            raise Unhealthy("is_healthy returned false, so no further heartbeat is sent")

    def _pause_after(self, error: BaseException) -> float | None:
        """None: no further heartbeat is sent."""
        if isinstance(error, _TEMPORARY):
            return min(_AGAIN_SECONDS, self._pause)
        self._error = error
        return None


class Heartbeats(_Renewals):
    """Sends heartbeats from a thread while the block runs.

    The thread stops sending when `is_healthy` returns false or raises. A block that ends normally disarms the promise;
    one that raises leaves it armed, so the scope is halted when it runs out.
    """

    def __init__(
        self,
        beat: Callable[[], Heartbeat],
        disarm: Callable[[], None],
        timeout_seconds: int,
        is_healthy: Callable[[], bool],
    ) -> None:
        super().__init__(timeout_seconds, is_healthy)
        self._beat, self._disarm = beat, disarm
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="openbell-heartbeats", daemon=True)

    def __enter__(self) -> Self:
        self._last = self._beat()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()
        if kind is None and self._error is None:
            self._disarm()

    def _run(self) -> None:
        pause: float | None = self._pause
        while pause is not None and not self._stopped.wait(pause):
            try:
                self._require_health()
                self._last = self._beat()
                pause = self._pause
            except BaseException as error:  # noqa: BLE001 - raised to the next reader
                pause = self._pause_after(error)


class AsyncHeartbeats(_Renewals):
    """Sends heartbeats from a task while the block runs.

    The task stops sending when `is_healthy` returns false or raises, and cannot send while the event loop is blocked. A
    block that ends normally disarms the promise; one that raises leaves it armed, so the scope is halted when it runs
    out.
    """

    def __init__(
        self,
        beat: Callable[[], Awaitable[Heartbeat]],
        disarm: Callable[[], Awaitable[None]],
        timeout_seconds: int,
        is_healthy: Callable[[], bool],
    ) -> None:
        super().__init__(timeout_seconds, is_healthy)
        self._beat, self._disarm = beat, disarm
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._last = await self._beat()
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if kind is None and self._error is None:
            await self._disarm()

    async def _run(self) -> None:
        pause: float | None = self._pause
        while pause is not None:
            await asyncio.sleep(pause)
            try:
                self._require_health()
                self._last = await self._beat()
                pause = self._pause
            except Exception as error:  # noqa: BLE001 - raised to the next reader
                pause = self._pause_after(error)


class Unhealthy(OpenbellError):
    """The program's own check failed, so its heartbeats stopped and its scope will be halted."""
