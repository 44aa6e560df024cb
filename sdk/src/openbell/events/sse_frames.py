"""Builds the request for a stream of server-sent events, and parses its lines."""

from collections.abc import Callable
from typing import Any, Final

import httpx
import msgspec

from openbell.connection import Connection
from openbell.errors import ApiError, UnexpectedReply
from openbell.events import subscriptions
from openbell.events.subscriptions import Frame, Subscription
from openbell.httpx_exchange import reply_of
from openbell.replies import read_error
from openbell.requests import path_of

# A later attempt may succeed.
_TEMPORARY: Final = frozenset({429, 500, 502, 503, 504})


class FrameParser:
    """Builds frames from lines, as the specification of server-sent events defines them."""

    def __init__(self) -> None:
        self._id = self._type = ""
        self._data: list[str] = []

    def feed(self, line: str) -> Frame | None:
        """The complete frame if this line is the empty line at its end, else None."""
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
        kind, token, data = self._type, self._id, "\n".join(self._data)
        self._id = self._type = ""
        self._data = []
        return _frame(kind, token, data) if data else None


def stream_arguments(connection: Connection, subscription: Subscription) -> dict[str, Any]:
    """The arguments of httpx's stream()."""
    header, secret = connection.credential
    headers = {header: secret, "accept": "text/event-stream"}
    parameters = {"types": ",".join(subscription.types)}
    if subscription.account_id is not None:
        parameters["account_id"] = subscription.account_id
    if subscription.symbols:
        parameters["symbols"] = ",".join(subscription.symbols)
    if subscription.resume_token:
        headers["last-event-id"] = subscription.resume_token
    else:
        parameters["start"] = subscription.start
    return {
        "method": "GET",
        "url": path_of("events"),
        "params": parameters,
        "headers": headers,
        "timeout": httpx.Timeout(connection.timeout, read=subscriptions.SILENCE_SECONDS),
    }


def refusal_of(response: httpx.Response) -> ApiError | UnexpectedReply | None:
    """The error of a response that has been read; None if a retry may help."""
    return None if response.status_code in _TEMPORARY else read_error(reply_of(response))


def canceller(response: httpx.Response) -> Callable[[], object]:
    """Ends a read that waits in another thread."""
    return response.close


def async_canceller(response: httpx.Response) -> Callable[[], object]:
    """Does nothing: a task that waits for a read is cancelled instead."""
    del response
    return lambda: None


def _frame(kind: str, token: str, data: str) -> Frame:
    try:
        fields = msgspec.json.decode(data, type=dict[str, Any])
        body = fields.pop(kind, {})
        return msgspec.convert({**fields, "type": kind, "resume_token": token, "body": body}, Frame, strict=False)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise UnexpectedReply(f"A frame of the event stream cannot be read: {error}") from error
