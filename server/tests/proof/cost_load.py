"""A cheap load generator, which is a process of its own: market orders over kept connections, from prebuilt requests.

Reads a plan as JSON from standard input and writes what happened to standard output.
"""

import asyncio
import json
import math
import sys
import time
from collections import deque
from dataclasses import asdict, dataclass
from typing import Final, cast

import uvloop

CONNECTIONS: Final = 64
_BODY: Final = (
    b'{"command":{"type":"CREATE","payload":{"symbol":"AAPL","order_side":"BUY","spec":{"Market":{"quantity":"1"}}}}}'
)
_REFUSALS_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """What to submit: so many intents in turn to the accounts, at a rate or, if that is 0, as fast as it goes."""

    port: int
    api_key: str
    mark: str
    accounts: list[str]
    intents: int
    rate: float = 0


@dataclass(frozen=True, slots=True)
class Sent:
    """What the load generator saw and used."""

    accepted: int
    # The first answers that were no acceptance.
    refusals: list[str]
    # By the clock of the day, as the database has it.
    began_at: float
    seconds: float
    p50_millis: float
    p99_millis: float
    cpu_seconds: float


class _Load:
    """The requests that are left, and the answers so far."""

    def __init__(self, plan: Plan) -> None:
        self.requests = deque(_request(plan, number) for number in range(plan.intents))
        self.left = plan.intents
        self.free: deque[_Connection] = deque()
        self.waiting = 0
        self.took: list[float] = []
        self.refusals: list[str] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def send(self) -> None:
        """Send one request, now or as soon as a connection is free."""
        if self.free:
            self.free.popleft().send(self.requests.popleft())
        else:
            self.waiting += 1

    def answered(self, connection: "_Connection", answer: bytes, seconds: float) -> None:
        self.took.append(seconds)
        if not answer.startswith(b"HTTP/1.1 202"):
            self.refusals.append(answer[:400].decode(errors="replace"))
        self.left -= 1
        if not self.left and not self.done.done():
            self.done.set_result(None)
        if self.waiting:
            self.waiting -= 1
            connection.send(self.requests.popleft())
        else:
            self.free.append(connection)


class _Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self, load: _Load) -> None:
        self._load = load
        self._received = b""
        self._sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self, request: bytes) -> None:
        self._sent_at = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if end and len(body) >= _content_length(head):
            answer, self._received = self._received, b""
            self._load.answered(self, answer, time.perf_counter() - self._sent_at)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._load.done.done():
            self._load.done.set_exception(exc or ConnectionError("the server closed a connection"))


def _content_length(head: bytes) -> int:
    return int(head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0])


def _request(plan: Plan, number: int) -> bytes:
    head = (
        f"POST /v1/accounts/{plan.accounts[number % len(plan.accounts)]}/intents HTTP/1.1\r\n"
        f"host: 127.0.0.1:{plan.port}\r\ncontent-type: application/json\r\nx-api-key: {plan.api_key}\r\n"
        f"idempotency-key: {plan.mark}-{number}\r\ncontent-length: {len(_BODY)}\r\n\r\n"
    )
    return head.encode() + _BODY


async def _submit(plan: Plan) -> Sent:
    load = _Load(plan)
    loop = asyncio.get_running_loop()
    # At a rate each is used once a second: the server closes those that are idle for five.
    for _ in range(min(CONNECTIONS, math.ceil(plan.rate)) if plan.rate else CONNECTIONS):
        _, connection = await loop.create_connection(lambda: _Connection(load), "127.0.0.1", plan.port)
        load.free.append(connection)
    began_at, cpu, begun = time.time(), time.process_time(), time.perf_counter()
    for number in range(plan.intents):
        if plan.rate and (wait := begun + number / plan.rate - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        load.send()
    await load.done
    took = sorted(load.took)
    return Sent(
        accepted=plan.intents - len(load.refusals),
        refusals=load.refusals[:_REFUSALS_SHOWN],
        began_at=began_at,
        seconds=time.perf_counter() - begun,
        p50_millis=1000 * took[len(took) // 2],
        p99_millis=1000 * took[int(len(took) * 0.99)],
        cpu_seconds=time.process_time() - cpu,
    )


def main() -> None:
    sent = uvloop.run(_submit(Plan(**json.load(sys.stdin))))
    json.dump(asdict(sent), sys.stdout)


if __name__ == "__main__":
    main()
