"""The event stream as server-sent events, for where gRPC does not get through: the same events and promises."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final
from urllib.parse import quote

import httpx
import msgspec

from openbell import subscriptions
from openbell.connection import Connection
from openbell.errors import ApiError, UnexpectedReply
from openbell.event_records import Event
from openbell.httpx_exchange import reply_of
from openbell.requests import read_error
from openbell.subscriptions import Frame, Subscription

# Refused now, perhaps not in a moment.
_PASSING: Final = frozenset({429, 500, 502, 503, 504})


class _Lines:
    """Frames out of lines, as the specification of server-sent events has them."""

    def __init__(self) -> None:
        self._id = self._type = ""
        self._data: list[str] = []

    def take(self, line: str) -> Frame | None:
        """The frame that an empty line ends."""
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                self._data.append(value)
            elif name == "id":
                self._id = value
            elif name == "event":
                self._type = value
            return None
        told, data = (self._type, self._id), "\n".join(self._data)
        self._id = self._type = ""
        self._data = []
        return _frame(*told, data) if data else None


def iterate(http: httpx.Client, connection: Connection, subscription: Subscription) -> Iterator[Event | None]:
    """None for every frame that only says how far the stream is, so that a caller knows it stands; then events."""
    while not subscription.is_closed:  # ends when pause_after raises: refused, or too many failures in a row
        refusal, details = None, None
        try:
            with http.stream(**_request(connection, subscription)) as response:
                if response.status_code == httpx.codes.OK:
                    subscription.begin(response.close)
                    lines = _Lines()
                    for line in response.iter_lines():
                        if (frame := lines.take(line)) is not None:
                            yield from subscription.accept(frame) or (None,)
                else:
                    response.read()
                    refusal, details = _refusal(response), f"it answers {response.status_code}"
        except (httpx.HTTPError, httpx.StreamError) as error:
            details = str(error) or type(error).__name__
        if not subscription.is_closed:
            time.sleep(subscription.pause_after(refusal, details))


async def iterate_async(
    http: httpx.AsyncClient, connection: Connection, subscription: Subscription
) -> AsyncIterator[Event]:
    """Events of a subscription, one after the other."""
    while not subscription.is_closed:  # ends when pause_after raises: refused, or too many failures in a row
        refusal, details = None, None
        try:
            async with http.stream(**_request(connection, subscription)) as response:
                if response.status_code == httpx.codes.OK:
                    # Who reads here ends with its task: nobody else has to cut it.
                    subscription.begin(lambda: None)
                    lines = _Lines()
                    async for line in response.aiter_lines():
                        if (frame := lines.take(line)) is not None:
                            for event in subscription.accept(frame):
                                yield event
                else:
                    await response.aread()
                    refusal, details = _refusal(response), f"it answers {response.status_code}"
        except (httpx.HTTPError, httpx.StreamError) as error:
            details = str(error) or type(error).__name__
        if not subscription.is_closed:
            await asyncio.sleep(subscription.pause_after(refusal, details))


def _request(connection: Connection, subscription: Subscription) -> dict[str, Any]:
    header, secret = connection.credential
    headers = {header: secret, "accept": "text/event-stream"}
    parameters = {"types": ",".join(subscription.types)}
    if subscription.symbols:
        parameters["symbols"] = ",".join(subscription.symbols)
    if subscription.resume_token:
        headers["last-event-id"] = subscription.resume_token
    else:
        parameters["start"] = subscription.start
    assert subscription.account_id is not None, "server-sent events are an account's"
    return {
        "method": "GET",
        "url": f"/v1/accounts/{quote(subscription.account_id, safe='')}/events",
        "params": parameters,
        "headers": headers,
        "timeout": httpx.Timeout(connection.timeout, read=subscriptions.SILENCE_SECONDS),
    }


def _refusal(response: httpx.Response) -> ApiError | UnexpectedReply | None:
    return None if response.status_code in _PASSING else read_error(reply_of(response))


def _frame(kind: str, token: str, data: str) -> Frame:
    try:
        told = msgspec.json.decode(data, type=dict[str, Any])
        body = told.pop(kind, {})
        return msgspec.convert({**told, "type": kind, "resume_token": token, "body": body}, Frame, strict=False)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise UnexpectedReply(f"A frame of the event stream cannot be read: {error}") from error
