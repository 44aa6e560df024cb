"""Serves /metrics, /healthz and /readyz on its own port; a failure of this port never stops the process."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from typing import Any, Final

import structlog

from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.postgres.connection import Pool, check_writing, describe_error
from openbell_server.http_protocol import Connections
from openbell_server.processes.http_server import serve_http
from openbell_server.settings import Settings
from openbell_server.telemetry.instruments import Instruments, Values
from openbell_server.telemetry.tracing import RecordSpan, record_nothing

CONNECTIONS_MAX: Final = 16
CHECK_SECONDS: Final = 3.0
# The database is queried at most this often, however many scrape.
STORE_SECONDS: Final = 5.0
READY_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 5.0
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class NotReady(Exception):
    """The reason, in one sentence, why a process cannot work."""


Check = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class _FromStore:
    """Metrics read from the database; there are none while it does not answer."""

    read: Callable[[], Awaitable[Mapping[str, Values]]]
    failed: int = 0
    values: Mapping[str, Values] = field(default_factory=dict)
    read_at: float = float("-inf")

    def of(self, metric: str) -> Values:
        return self.values.get(metric, {})

    async def refresh(self) -> None:
        """Read them unless they are younger than STORE_SECONDS."""
        if time.monotonic() - self.read_at < STORE_SECONDS:
            return
        self.read_at = time.monotonic()
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                self.values = await self.read()
        except Exception:  # noqa: BLE001 - the other metrics are still served, and the failure is counted
            self.values, self.failed = {}, self.failed + 1


@dataclass(slots=True)
class Operations:
    """The metrics and readiness checks of one process."""

    process: str
    record_span: RecordSpan = record_nothing
    notify_ready: Callable[[], None] = lambda: None
    # How many parts must start until the process is ready.
    parts: int = 1
    instruments: Instruments = field(default_factory=Instruments)
    _needed: dict[str, Check] = field(default_factory=dict)
    _optional: dict[str, Check] = field(default_factory=dict)
    _stores: list[_FromStore] = field(default_factory=list)
    _pools: list[Pool] = field(default_factory=list)
    _ending: bool = False
    _ready: tuple[float, int, bytes] | None = None
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        labels = (version("openbell-server"), self.process)
        started = time.time()
        read = self.instruments.read
        read("gauge", "openbell_build_info", "Always 1.", ("version", "process"), lambda: {labels: 1})
        about_start = "When the process started, in seconds since 1970."
        read("gauge", "openbell_process_start_time_seconds", about_start, (), lambda: {(): started})
        read(
            "counter",
            "openbell_store_reads_failed_total",
            "How often the database did not return values for this page; they are missing until it does.",
            (),
            lambda: {(): sum(store.failed for store in self._stores)},
        )

    def watch_database(self, pool: Pool, *others: Pool) -> None:
        """The process is ready while the first pool writes; its connections are counted with those of the others."""
        if not self._pools:
            in_use, at_most = "Connections to the database in use.", "Connections to the database that there may be."
            pools, read = self._pools, self.instruments.read
            read("gauge", "openbell_database_connections_in_use", in_use, (), lambda: {(): sum(map(_in_use, pools))})
            read("gauge", "openbell_database_connections_max", at_most, (), lambda: {(): sum(map(_max_size, pools))})
        self._pools += (pool, *others)

        async def writes() -> None:
            try:
                await check_writing(pool)
            except Exception as error:
                raise NotReady(f"the database takes no writes: {describe_error(error)}") from error

        self._needed["database"] = writes

    def watch_nats(self, connection: JetStreamConnection, *, needed: bool) -> None:
        """With needed=False the process is ready without NATS, and in any case if none is configured."""
        if not connection.is_configured:
            return

        async def is_reachable() -> None:
            if not connection.is_reachable():
                raise NotReady(
                    "NATS is not connected" + ("" if needed else "; work is found by polling, which is slower")
                )

        if "nats" not in self._needed | self._optional:
            about = "Whether NATS is connected; absent if none is configured."
            self.instruments.read(
                "gauge", "openbell_nats_connected", about, (), lambda: {(): float(connection.is_reachable())}
            )
        if needed:
            self._needed["nats"] = is_reachable
        else:
            self._optional.setdefault("nats", is_reachable)

    def need(self, name: str, check: Check) -> None:
        """The process is ready only if check does not raise NotReady."""
        self._needed[name] = check

    def from_store(
        self, read: Callable[[], Awaitable[Mapping[str, Values]]], metrics: Mapping[str, tuple[str, tuple[str, ...]]]
    ) -> None:
        """Register gauges (name to help text and labels) read from the database at most every STORE_SECONDS."""
        store = _FromStore(read)
        self._stores.append(store)
        for name, (meaning, labels) in metrics.items():
            self.instruments.read("gauge", name, meaning, labels, partial(store.of, name))

    def part_started(self) -> None:
        """To be called by each part of the process once it serves; the last one makes the process ready."""
        self.parts -= 1
        if self.parts == 0:
            self.notify_ready()

    @property
    def has_started(self) -> bool:
        """True once a required check was registered."""
        return bool(self._needed)

    def end(self) -> None:
        self._ending, self._ready = True, None

    async def readiness(self) -> tuple[int, bytes]:
        """HTTP status and JSON body of /readyz, cached for READY_SECONDS."""
        async with self._looking:
            if self._ready is None or time.monotonic() - self._ready[0] > READY_SECONDS:
                status, body = await self._look()
                self._ready = time.monotonic(), status, body
            return self._ready[1], self._ready[2]

    async def is_ready(self) -> bool:
        return (await self.readiness())[0] == 200

    async def _look(self) -> tuple[int, bytes]:
        found = {name: await _result_of(check) for name, check in (self._needed | self._optional).items()}
        missing = [f"{found[name]}" for name in self._needed if found[name] != "ok"]
        if self._ending:
            missing.append("the process is ending")
        elif not self.has_started:
            missing.append("the process is starting")
        body = {"ready": not missing, "process": self.process, "why": "; ".join(missing) or None, "checks": found}
        return (503 if missing else 200), json.dumps(body).encode()

    async def __call__(self, scope: Mapping[str, Any], _: object, send: Callable[..., Awaitable[None]]) -> None:
        status, kind, body = await self._answer(scope)
        headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _answer(self, scope: Mapping[str, Any]) -> tuple[int, str, bytes]:
        if scope["method"] not in {"GET", "HEAD"}:
            return 405, "text/plain", b"only GET and HEAD are allowed\n"
        match scope["path"]:
            case "/metrics":
                async with self._looking:
                    await asyncio.gather(*(store.refresh() for store in self._stores))
                return 200, CONTENT_TYPE, self.instruments.text()
            case "/healthz":
                return 200, "application/json", json.dumps({"alive": True, "process": self.process}).encode()
            case "/readyz":
                status, body = await self.readiness()
                return status, "application/json", body
        return 404, "text/plain", b"available paths: /metrics, /healthz and /readyz\n"

    async def run(self, settings: Settings) -> None:
        """Serve until cancelled, and retry when the port fails."""
        never = asyncio.Event()
        while settings.operations_port:
            try:
                await serve_http(
                    self,
                    settings.operations_host,
                    settings.operations_port,
                    never,
                    connections=Connections(CONNECTIONS_MAX, CONNECTIONS_MAX),
                )
            except Exception as error:  # noqa: BLE001 - the process must continue without this port
                structlog.get_logger().error("operations_port_failed", error=repr(error))
            await asyncio.sleep(RETRY_SECONDS)


def _max_size(pool: Pool) -> float:
    return pool.get_max_size()


def _in_use(pool: Pool) -> float:
    return pool.get_size() - pool.get_idle_size()


async def _result_of(check: Check) -> str:
    """ "ok" or the reason; an unexpected error also counts as not ready."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await check()
    except NotReady as error:
        return str(error)
    except TimeoutError:
        return f"no answer within {CHECK_SECONDS:g} s"
    except Exception as error:  # noqa: BLE001 - only its type, because the text may contain private data
        return type(error).__name__
    return "ok"
