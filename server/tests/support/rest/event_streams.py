"""The event stream on a loopback port, without hints: what must be right without them."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any
from uuid import uuid4

import grpc
import pytest

from openbell.wire import trading_pb2 as pb
from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.events.events import PostgresEventStore
from openbell_server.adapters.postgres.events.stream_counts import PostgresStreamCounts
from openbell_server.application.access.ports.access_tokens import AccessTokens
from openbell_server.application.access.rate_limits import LimitRates
from openbell_server.application.events.event_tail_cache import EventTailCache
from openbell_server.application.events.follow_events import FollowEvents
from openbell_server.application.events.recheck_access import RecheckAccess
from openbell_server.application.events.stream_places import StreamPlaces
from openbell_server.devtools.child_processes import free_port
from openbell_server.domain.access.caps import CAPS, Cap
from openbell_server.domain.identifiers import AccountId
from openbell_server.processes.authentication import authentication, wall_clock
from openbell_server.transport.stream.event_messages import encode_event
from openbell_server.transport.stream.health import Health
from openbell_server.transport.stream.server import TradingService, serve_stream
from support.builders.tenant import Tenant
from support.identity.identity_provider import Verifier
from support.rest.rest_api import limited

# The client asks for more only after it was read, so that little lies between it and the server.
SMALL_WINDOW = (("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.bdp_probe", 0))


class QuietWakes:
    """No hints at all."""

    def listen(self, notify: Callable[[AccountId], None]) -> None:
        """Nothing is ever heard."""


def following(pool: Pool) -> FollowEvents:
    """As the stream process does it."""
    events = PostgresEventStore(pool)
    access = RecheckAccess(PostgresOrganizationStore(pool), events)
    return FollowEvents(access, EventTailCache(events, QuietWakes(), encode_event), b"a secret", time.monotonic)


async def _always_ready() -> bool:
    return True


@contextlib.asynccontextmanager
async def event_stream(
    pool: Pool,
    limit: LimitRates | None = None,
    stopping: asyncio.Event | None = None,
    is_ready: Callable[[], Awaitable[bool]] | None = None,
    caps: Mapping[str, Cap] | None = None,
    tokens: AccessTokens | None = None,
) -> AsyncIterator[str]:
    """The address of a server that believes the tests' identity provider."""
    stopping, ready = stopping or asyncio.Event(), asyncio.Event()
    authenticate = authentication(pool, tokens or Verifier().tokens)
    places = StreamPlaces(PostgresStreamCounts(pool, uuid4()), (caps or CAPS)["streams"])
    service = TradingService(authenticate, limit or limited(), following(pool), wall_clock, places)
    health = Health(is_ready or _always_ready, stopping)
    address = f"127.0.0.1:{free_port()}"
    served = asyncio.ensure_future(serve_stream(service, health, address, ready.set, stopping))
    await asyncio.wait_for(ready.wait(), 60)
    try:
        yield address
    finally:
        stopping.set()
        await asyncio.wait_for(served, 60)


async def take(call: Any, count: int) -> list[pb.TradingEvent]:
    """The next frames of a call."""
    async with asyncio.timeout(60):
        return [await call.read() for _ in range(count)]


async def ending(call: Any) -> tuple[list[pb.TradingEvent], grpc.StatusCode, dict[str, str]]:
    """What else comes, the status that the stream ends with, and what is told with it."""
    frames: list[pb.TradingEvent] = []

    async def take_all() -> None:
        while isinstance(frame := await call.read(), pb.TradingEvent):
            frames.append(frame)

    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await asyncio.wait_for(take_all(), 60)
    told = {str(name): str(value) for name, value in ended.value.trailing_metadata() or ()}
    return frames, ended.value.code(), told


async def write_events(pool: Pool, tenant: Tenant, symbols: list[str | None], size: int = 1) -> None:
    """Events about symbols, in the log as adjustments of what is held, or as changes of the account."""
    account = tenant.account
    first = 1 + int(await pool.fetchval("select event_no from account_counters where account_id = $1", account.id))
    for number, symbol in enumerate(symbols, first):
        about = f'{{"symbol": "{symbol}", "cause": "{"x" * size}"}}' if symbol else '{"version": 1}'
        await pool.execute(
            "insert into account_events (organization_id, account_id, event_no, kind, body, occurred_at)"
            " values ($1, $2, $3, $4, $5, now())",
            *(account.organization_id, account.id, number, 5 if symbol else 3, about),
        )
    await pool.execute(
        "update account_counters set event_no = event_no + $2 where account_id = $1", account.id, len(symbols)
    )


async def forget_after(pool: Pool, tenant: Tenant, number: int) -> None:
    """The newest event is this one again, as in a database that was restored from a backup of that moment."""
    await pool.execute("update account_counters set event_no = $2 where account_id = $1", tenant.account.id, number)


async def delete_events(pool: Pool, tenant: Tenant, *numbers: int) -> None:
    """Remove events as only a superuser can, who switches triggers off; nothing records it."""
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("set local session_replication_role = replica")
        await connection.execute(
            "delete from account_events where account_id = $1 and event_no = any($2)", tenant.account.id, numbers
        )
