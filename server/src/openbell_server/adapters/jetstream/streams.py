"""Creates our streams and updates those of an earlier version."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog
from nats.aio.client import Client
from nats.errors import Error as NatsError

from openbell_server.adapters.jetstream import subjects

REQUEST_SECONDS: Final = 1.0
DUPLICATE_WINDOW_SECONDS: Final = 600
WORK_BYTES_MAX: Final = 64 * 1024 * 1024
EVENT_BYTES_MAX: Final = 16 * 1024 * 1024
# Limit of one message with headers; a larger one is never accepted, and its row fails.
MESSAGE_BYTES_MAX: Final = 64 * 1024
# Free space that a full stream needs before it is used again.
ROOM_BYTES: Final = 1024 * 1024
_MISSING: Final = 404


class StreamError(NatsError):
    """JetStream answered a stream request with an error."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(description)
        self.code = code


@dataclass(frozen=True, slots=True)
class Standing:
    has_room: bool
    takes_batches: bool


def _stream(name: str, subject: str, bytes_max: int, **more: str) -> dict[str, Any]:
    return {
        "name": name,
        "subjects": [subject],
        "storage": "file",
        "num_replicas": 1,
        "max_bytes": bytes_max,
        "max_msg_size": MESSAGE_BYTES_MAX,
        "duplicate_window": DUPLICATE_WINDOW_SECONDS * 10**9,
        "allow_atomic": True,
        **more,
    }


STREAMS: Final[Mapping[str, dict[str, Any]]] = {
    stream["name"]: stream
    for stream in (
        _stream(subjects.WORK_STREAM, subjects.ALL_WORK, WORK_BYTES_MAX, retention="workqueue", discard="new"),
        # Reading these is optional, so the oldest are discarded.
        _stream(subjects.ACCOUNT_STREAM, subjects.ALL_ACCOUNT_EVENTS, EVENT_BYTES_MAX, discard="old"),
        _stream(subjects.USER_STREAM, subjects.ALL_USER_EVENTS, EVENT_BYTES_MAX, discard="old"),
    )
}


async def ensure(client: Client) -> None:
    """Ensure all streams; called at every connect, because a wiped server has none."""
    for name in STREAMS:
        await ensure_stream(client, name)


async def ensure_stream(client: Client, name: str) -> Standing:
    """Create or update a stream and return its state; raises if JetStream does not answer."""
    try:
        # Query first: creating it again would reserve its whole space a second time.
        info = await _call(client, "INFO", name)
    except StreamError as error:
        if error.code != _MISSING:
            raise
        info = await _call(client, "CREATE", name, STREAMS[name])
    config = info["config"]
    if not config.get("allow_atomic") or config.get("max_msg_size", -1) < 0:
        # Keep an operator's other changes.
        wanted = {**config, "allow_atomic": True, "max_msg_size": MESSAGE_BYTES_MAX}
        try:
            config = (await _call(client, "UPDATE", name, wanted))["config"]
        except StreamError as error:
            structlog.get_logger().warning("stream_not_updated", stream=name, error=str(error))
    bytes_max = config.get("max_bytes", -1)
    is_bounded = bytes_max > 0 and config.get("discard") == "new"
    return Standing(
        has_room=not is_bounded or info["state"]["bytes"] + min(ROOM_BYTES, bytes_max // 2) <= bytes_max,
        takes_batches=bool(config.get("allow_atomic")),
    )


async def _call(client: Client, verb: str, name: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    request = json.dumps(body).encode() if body else b""
    reply = await client.request(f"$JS.API.STREAM.{verb}.{name}", request, timeout=REQUEST_SECONDS)
    answer: dict[str, Any] = json.loads(reply.data)
    if error := answer.get("error"):
        raise StreamError(error["code"], error["description"])
    return answer
