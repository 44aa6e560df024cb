"""Sends requests with retries and reads the replies."""

from asyncio import sleep
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from time import monotonic
from typing import Final, TypeVar

import httpx

from openbell.connection import Connection
from openbell.errors import ApiError, NotFinal, OpenbellError, Unreachable
from openbell.httpx_exchange import client_arguments, no_reply, reply_of, request_arguments
from openbell.models import Action, PageOf
from openbell.replies import (
    RETRIED_STATUSES,
    NoReply,
    Recorded,
    Reply,
    doubt_after,
    pause_before_retry,
    read,
    require_success,
    submitted,
)
from openbell.requests import Request, following_page

RETRIES: Final = 3
FIRST_POLL_PAUSE: Final = 0.1
LONGEST_POLL_PAUSE: Final = 1.0

Kind = TypeVar("Kind")
Item = TypeVar("Item")


class AsyncSession:
    """The HTTP connections of one client."""

    def __init__(self, connection: Connection, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.connection = connection
        self.http = httpx.AsyncClient(**client_arguments(connection), transport=transport)

    async def get(self, kind: type[Kind], path: str, parameters: dict[str, str] | None = None) -> Kind:
        return await self.fetch(Request("GET", path, parameters or {}), kind)

    async def fetch(self, request: Request, kind: type[Kind]) -> Kind:
        """Send with retries."""
        return read(await self.request(request), kind)

    async def fetch_once(self, request: Request, kind: type[Kind]) -> Kind:
        """Send without retries, because a retry would take effect a second time."""
        return read(await self.request_once(request), kind)

    async def request(self, request: Request) -> Reply:
        """Send with retries; a request bound to a version is sent once.

        If the first attempt had changed the version, the server would reject the retry with version_mismatch.
        """
        if "if-match" in request.headers:
            return await self.request_once(request)
        answer, _ = await self._exchange(request)
        return require_success(answer)

    async def request_once(self, request: Request) -> Reply:
        """Send without retries, because a retry would take effect a second time."""
        answer = await self._send(request)
        if isinstance(answer, NoReply) and answer.sent:
            raise Unreachable(
                f"No reply came from {answer.reason}; the request may have taken effect: check before a retry."
            )
        return require_success(answer)

    async def submit(self, request: Request, kind: type[Recorded]) -> Recorded:
        """Send a command, with the same idempotency key in every retry."""
        answer, doubt = await self._exchange(request)
        return submitted(answer, doubt, request.headers["idempotency-key"], kind)

    async def items(self, request: Request, kind: type[PageOf[Item]]) -> AsyncIterator[Item]:
        """Every item of a list, page after page; `request` is for the first page."""
        following: Request | None = request
        while following is not None:  # ends with the last page; following_page raises if a page repeats its cursor
            page = await self.fetch(following, kind)
            for item in page.data:
                yield item
            following = following_page(following, page.next_cursor)

    async def await_final(self, request: Request, timeout: float) -> Action:
        """Poll an intent until its execution is final; raises NotFinal if it is not after `timeout` seconds."""
        seen = await self.poll(request, timeout, Action, _is_final)
        if _is_final(seen):
            return seen
        status = seen.status if seen.execution is None else seen.execution.status
        raise NotFinal(f"Intent {seen.intent_id} is still {status} after {timeout:g} seconds.", action=seen)

    async def poll(self, request: Request, timeout: float, kind: type[Kind], is_final: Callable[[Kind], bool]) -> Kind:
        """Read a record until it is final or `timeout` seconds have passed, also through short outages."""
        deadline = monotonic() + timeout
        pause = FIRST_POLL_PAUSE
        seen: Kind | None = None
        error: OpenbellError | None = None
        while True:  # ends at the deadline
            answer = await self._send(replace(request, timeout=max(1.0, deadline - monotonic())))
            try:
                seen = read(require_success(answer), kind)
            except (ApiError, Unreachable) as failure:
                if isinstance(failure, ApiError) and failure.status not in RETRIED_STATUSES:
                    raise
                error = failure
            if seen is not None and is_final(seen):
                return seen
            remaining = deadline - monotonic()
            if remaining <= 0:
                break
            await sleep(min(pause, remaining))
            pause = min(pause * 1.5, LONGEST_POLL_PAUSE)
        if seen is None:
            assert error is not None
            raise error
        return seen

    async def _exchange(self, request: Request) -> tuple[Reply | NoReply, str]:
        """The last answer, and why an earlier attempt may have taken effect although that answer does not show it."""
        doubt = ""
        for attempt in range(RETRIES + 1):
            answer = await self._send(request)
            doubt = doubt_after(answer) or doubt
            pause = pause_before_retry(answer, attempt)
            if pause is None or attempt == RETRIES:
                break
            await sleep(pause)
        return answer, doubt

    async def _send(self, request: Request) -> Reply | NoReply:
        try:
            return reply_of(await self.http.request(**request_arguments(self.connection, request)))
        except httpx.RequestError as error:
            return no_reply(self.connection, error)


def _is_final(action: Action) -> bool:
    return action.execution is not None and action.execution.is_final
