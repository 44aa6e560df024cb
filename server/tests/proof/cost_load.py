"""A cheap load generator, a process of its own: orders and cancels over kept connections, from prebuilt requests.

Reads a plan as JSON from standard input and writes what happened to standard output.
"""

import asyncio
import json
import math
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Final, cast

import uvloop

CONNECTIONS: Final = 64
# The server closes a connection that is idle for five seconds.
STALE_SECONDS: Final = 3.0
_MARKET: Final = {"Market": {"quantity": "1"}}
_REFUSALS_SHOWN: Final = 3
# What the server asks for in Retry-After.
_TRY_AGAIN_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What to submit: so many buys in turn to the accounts, at a rate or, if that is 0, as fast as it goes."""

    port: int
    api_key: str
    mark: str
    accounts: list[str]
    intents: int
    # Requests a second, cancels included.
    rate: float = 0
    # Without it they are market orders.
    limit_price: str = ""
    # Account and intent of each order to cancel, spread evenly among the others.
    cancels: list[tuple[str, str]] = field(default_factory=list)
    # 0: CONNECTIONS, but not more than requests a second.
    connections: int = 0
    # Whether a command that is refused because too many wait is sent again after a second, as clients do.
    tries_again: bool = True


@dataclass(frozen=True, slots=True)
class Sent:
    """What the load generator saw and used."""

    # Without cancels.
    accepted: int
    # The first answers that were no acceptance.
    refusals: list[str]
    # By the clock of the day, as the database has it.
    began_at: float
    seconds: float
    p50_millis: float
    p99_millis: float
    cpu_seconds: float
    # Until the last request was written.
    offered_seconds: float
    cancels_accepted: int
    cancel_refusals: list[str]
    cancels_p99_millis: float


@dataclass(frozen=True, slots=True)
class _Request:
    is_cancel: bool
    text: bytes


class _Load:
    """The requests that are left, the connections that may have one, and the answers so far."""

    def __init__(self, plan: Plan) -> None:
        self._port, self._tries_again = plan.port, plan.tries_again
        self.requests = deque(_requests(plan))
        self.left = len(self.requests)
        self.free: deque[_Connection] = deque()
        # Requests for which no connection was free.
        self.waiting = 0
        self.missing = 0
        self.took: dict[bool, list[float]] = {False: [], True: []}
        self.accepted = {False: 0, True: 0}
        self.refusals: dict[bool, list[str]] = {False: [], True: []}
        self.last_sent_at = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._opening: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Open a connection, and send what waits for it."""
        try:
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: _Connection(self), "127.0.0.1", self._port
            )
        except OSError as trouble:
            self.fail(trouble)
            return
        self._is_free(connection)

    def send(self) -> None:
        """Send one request, now or as soon as a connection is free."""
        while self.free:
            # The last one used, so that others become stale only if they are not needed.
            connection = self.free.pop()
            if not connection.is_stale():
                connection.send(self.requests.popleft())
                return
            connection.close()
            self.missing += 1
        self.waiting += 1
        if self.missing:
            self.missing -= 1
            opening = asyncio.ensure_future(self.open())
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

    def lost(self, connection: "_Connection") -> None:
        """The server closed a connection that had no request."""
        self.free.remove(connection)
        self.missing += 1

    def close(self) -> None:
        for connection in self.free:
            connection.close()

    def fail(self, trouble: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(trouble)

    def answered(self, connection: "_Connection", request: _Request, answer: bytes, seconds: float) -> None:
        if self._tries_again and b'"code":"overloaded"' in answer:
            asyncio.get_running_loop().call_later(_TRY_AGAIN_SECONDS, self._send_again, request)
            self._is_free(connection)
            return
        self.took[request.is_cancel].append(seconds)
        if answer.startswith(b"HTTP/1.1 202"):
            self.accepted[request.is_cancel] += 1
        elif len(refusals := self.refusals[request.is_cancel]) < _REFUSALS_SHOWN:
            refusals.append(answer[:600].decode(errors="replace"))
        self.left -= 1
        if not self.left and not self.done.done():
            self.done.set_result(None)
        self._is_free(connection)

    def _send_again(self, request: _Request) -> None:
        self.requests.append(request)
        self.send()

    def _is_free(self, connection: "_Connection") -> None:
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
        self._used_at = time.perf_counter()
        self._request: _Request | None = None
        self._is_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def is_stale(self) -> bool:
        """Whether the server may be about to close it."""
        return time.perf_counter() - self._used_at > STALE_SECONDS

    def close(self) -> None:
        self._is_closed = True
        self._transport.close()

    def send(self, request: _Request) -> None:
        self._request = request
        self._used_at = self._load.last_sent_at = time.perf_counter()
        self._transport.write(request.text)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if end and len(body) >= _content_length(head):
            answer, self._received = self._received, b""
            request, self._request = self._request, None
            if request is None:
                # The server says why it closes a connection that sent nothing for a while.
                return
            now = time.perf_counter()
            seconds, self._used_at = now - self._used_at, now
            self._load.answered(self, request, answer, seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_closed or self._load.done.done():
            return
        if self._request is None:
            self._load.lost(self)
        else:
            self._load.fail(exc or ConnectionError("the server closed a connection"))


def _content_length(head: bytes) -> int:
    return int(head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0])


def _requests(plan: Plan) -> Iterator[_Request]:
    spec = {"Limit": {"price": plan.limit_price, "quantity": "1"}} if plan.limit_price else _MARKET
    create = _body("CREATE", {"symbol": "AAPL", "order_side": "BUY", "spec": spec})
    canceled = 0
    for number in range(plan.intents):
        yield _Request(False, _text(plan, plan.accounts[number % len(plan.accounts)], str(number), create))
        while canceled * plan.intents < len(plan.cancels) * (number + 1):
            account, intent = plan.cancels[canceled]
            yield _Request(True, _text(plan, account, f"cancel-{canceled}", _body("CANCEL", {"ref_intent_id": intent})))
            canceled += 1


def _body(command: str, payload: dict[str, object]) -> bytes:
    return json.dumps({"command": {"type": command, "payload": payload}}, separators=(",", ":")).encode()


def _text(plan: Plan, account: str, key: str, body: bytes) -> bytes:
    head = (
        f"POST /v1/accounts/{account}/intents HTTP/1.1\r\n"
        f"host: 127.0.0.1:{plan.port}\r\ncontent-type: application/json\r\nx-api-key: {plan.api_key}\r\n"
        f"idempotency-key: {plan.mark}-{key}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _connections(plan: Plan) -> int:
    return plan.connections or (min(CONNECTIONS, math.ceil(plan.rate)) if plan.rate else CONNECTIONS)


async def _submit(plan: Plan) -> Sent:
    load = _Load(plan)
    for _ in range(_connections(plan)):
        await load.open()
    began_at, cpu, begun = time.time(), time.process_time(), time.perf_counter()
    for number in range(load.left):
        if plan.rate and (wait := begun + number / plan.rate - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        load.send()
    await load.done
    load.close()
    took = sorted(load.took[False] + load.took[True])
    cancels = sorted(load.took[True])
    return Sent(
        accepted=load.accepted[False],
        refusals=load.refusals[False],
        cancel_refusals=load.refusals[True],
        began_at=began_at,
        seconds=time.perf_counter() - begun,
        p50_millis=1000 * took[len(took) // 2],
        p99_millis=1000 * took[int(len(took) * 0.99)],
        cpu_seconds=time.process_time() - cpu,
        offered_seconds=load.last_sent_at - begun,
        cancels_accepted=load.accepted[True],
        cancels_p99_millis=1000 * cancels[int(len(cancels) * 0.99)] if cancels else 0.0,
    )


def main() -> None:
    sent = uvloop.run(_submit(Plan(**json.load(sys.stdin))))
    json.dump(asdict(sent), sys.stdout)


if __name__ == "__main__":
    main()
