"""Queries NATS for doctor: version, clock, and whether the streams have our configuration."""

import contextlib
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError

from openbell_server.adapters.jetstream.streams import STREAMS

ANSWER_SECONDS: Final = 2.0
_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True)
class FoundStream:
    """The state of a stream on the server."""

    name: str
    # None if it does not exist, else texts of the differences to our configuration.
    differences: tuple[str, ...] | None
    ahead_seconds: float
    took_seconds: float


@dataclass(frozen=True, slots=True)
class NatsDiagnostics:
    client: Client

    @property
    def version(self) -> tuple[int, int]:
        """Major and minor version of the server."""
        version = self.client.connected_server_version
        return version.major, version.minor

    async def has_jetstream(self) -> bool:
        """Raises TimeoutError without an answer in time, which proves nothing."""
        try:
            await self.client.jetstream(timeout=ANSWER_SECONDS).account_info()
        except TimeoutError:
            raise
        except NatsError:
            return False
        return True

    async def streams(self) -> list[FoundStream]:
        return [await self._stream(stream) for stream in STREAMS.values()]

    async def _stream(self, wanted: Mapping[str, Any]) -> FoundStream:
        before = time.time()
        reply = await self.client.request(f"$JS.API.STREAM.INFO.{wanted['name']}", timeout=ANSWER_SECONDS)
        after = time.time()
        answer = json.loads(reply.data)
        ahead = datetime.fromisoformat(answer["ts"]).timestamp() - (before + after) / 2 if "ts" in answer else 0.0
        found = None if answer.get("error", {}).get("code") == _NOT_FOUND else tuple(_differences(wanted, answer))
        return FoundStream(wanted["name"], found, ahead, after - before)


def _differences(wanted: Mapping[str, Any], answer: dict[str, Any]) -> list[str]:
    config = answer["config"]
    wrong = [
        f"{name} is {config.get(name)}"
        for name in ("retention", "storage", "discard", "subjects")
        if config.get(name) != wanted.get(name, "limits")
    ]
    if 0 < config["max_bytes"] < wanted["max_bytes"]:
        wrong.append(f"max_bytes is {config['max_bytes']}, less than {wanted['max_bytes']}")
    if config.get("duplicate_window", 0) < wanted["duplicate_window"]:
        wrong.append("the duplicate window is shorter than ten minutes")
    return wrong


@contextlib.asynccontextmanager
async def open_nats_diagnostics(url: str) -> AsyncIterator[NatsDiagnostics]:
    async def ignore(_: Exception) -> None:
        """The finding reports the error."""

    # With allow_reconnect off the client would retry forever, hence one attempt.
    client = await nats.connect(
        url, connect_timeout=ANSWER_SECONDS, max_reconnect_attempts=1, reconnect_time_wait=0.1, error_cb=ignore
    )
    try:
        yield NatsDiagnostics(client)
    finally:
        with contextlib.suppress(NatsError, TimeoutError, OSError):
            await client.close()
