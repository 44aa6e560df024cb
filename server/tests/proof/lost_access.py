"""Every way in which a caller loses access, each while its stream is open."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import grpc

from openbell.wire import trading_pb2 as pb
from openbell.wire import trading_pb2_grpc
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.operators.operators import PostgresOperatorStore, operator_store
from openbell_server.devtools.local_platform import IDENTITY_PROVIDER
from openbell_server.devtools.stack import Stack
from openbell_server.domain.access.access_tokens import LEEWAY_SECONDS
from openbell_server.transport.stream.event_messages import KINDS
from proof.figures import Figures
from support.builders.tenant import Tenant, a_tenant, accept
from support.identity.bearers import external_id_of
from support.identity.identity_provider import MACHINES, PEOPLE
from support.identity.loopback_issuers import bearer

LOSS_SECONDS_MAX = 1.0
READ_SECONDS = 120
# Long enough for a stream to be open before it ends by itself.
LIFETIME_SECONDS = 4
PAUSE_SECONDS = 0.05
Metadata = tuple[tuple[str, str], ...]
# Takes the access away; when that is done, by this machine's clock.
Lose = Callable[[Tenant], Awaitable[float]]
UNAUTHENTICATED = ("UNAUTHENTICATED", "unauthenticated")


@dataclass
class Caller:
    """Somebody with access to an account, and how it is lost."""

    way: str
    tenant: Tenant
    # Made when it is needed: some are short.
    credential: Callable[[], Metadata]
    ends_with: tuple[str, str]
    lose: Lose
    seconds: float = READ_SECONDS
    ended: tuple[str, str] = ("", "")
    again: tuple[str, str] = ("", "")
    # Of the events that came, the time of the last.
    last_event: float = 0.0
    lost_at: float = 0.0


async def prove_lost_access(figures: Figures, stack: Stack, pool: Pool, owner_url: str) -> None:
    address = f"127.0.0.1:{stack.environment['OPENBELL_STREAM_PORT']}"
    async with operator_store(owner_url, "proof") as store, grpc.aio.insecure_channel(address) as channel:
        callers = await _callers(pool, store)
        await asyncio.gather(*(_lose(caller, pool, channel) for caller in callers))
    ended = sum(caller.ended == caller.ends_with for caller in callers)
    figures.exactly("ways to lose access that ended an open stream, with the reason", ended, len(callers))
    figures.exactly("of these accepted again", sum(caller.again != caller.ends_with for caller in callers), 0)
    late = sum(caller.last_event > caller.lost_at + LOSS_SECONDS_MAX for caller in callers)
    longest = round(max(caller.seconds for caller in callers), 2)
    if figures.size == "full":
        figures.at_most("longest seconds from a loss of access to the end of the stream", longest, LOSS_SECONDS_MAX)
        figures.exactly("streams that were sent what happened a second after the loss", late, 0)
    else:
        figures.shown("longest seconds from a loss of access to the end of the stream", longest)


async def _callers(pool: Pool, store: PostgresOperatorStore) -> list[Caller]:
    """Each with an organization of its own."""
    return [*await _with_keys(pool, store), *await _with_tokens(pool, store)]


async def _with_keys(pool: Pool, store: PostgresOperatorStore) -> list[Caller]:
    async def expire(tenant: Tenant) -> float:
        ends = datetime.now(UTC) + timedelta(seconds=LIFETIME_SECONDS)
        await pool.execute("update api_keys set expires_at = $2 where api_key_id = $1::uuid", tenant.principal.id, ends)
        return ends.timestamp()

    def impoverish(tenant: Tenant) -> Awaitable[Any]:
        return pool.execute("update api_keys set permissions = '{}' where api_key_id = $1::uuid", tenant.principal.id)

    ways: list[tuple[str, tuple[str, str], Lose]] = [
        ("key revoked", UNAUTHENTICATED, _now(lambda tenant: store.revoke_api_key(_key_id(tenant)))),
        (
            "key disabled",
            ("UNAUTHENTICATED", "key_disabled"),
            _now(lambda tenant: store.disable_api_key(_key_id(tenant), disabled=True)),
        ),
        ("key expired", UNAUTHENTICATED, expire),
        ("permission taken from a key", ("PERMISSION_DENIED", "permission_denied"), _now(impoverish)),
        (
            "organization disabled",
            ("FAILED_PRECONDITION", "organization_disabled"),
            _now(lambda tenant: store.disable_organization(tenant.account.organization_id, disabled=True)),
        ),
    ]
    callers = []
    for way, told, lose in ways:
        tenant = await a_tenant(pool)
        callers.append(Caller(way, tenant, partial(_by_key, tenant), told, lose))
    return callers


def _by_key(tenant: Tenant) -> Metadata:
    return (("x-api-key", tenant.key),)


async def _with_tokens(pool: Pool, store: PostgresOperatorStore) -> list[Caller]:
    async def tenant() -> Tenant:
        made = await a_tenant(pool)
        # Whose tokens the issuers speak for.
        await pool.execute(
            "update organizations set provider = $2 where organization_id = $1",
            *(made.account.organization_id, IDENTITY_PROVIDER),
        )
        return made

    def deny(subject: str) -> Lose:
        return _now(lambda _: store.disable_user(IDENTITY_PROVIDER, subject, "a proof", None))

    user, machine, passing = await tenant(), await tenant(), await tenant()
    ends = 0

    def short_token() -> Metadata:
        """Believed for a little longer than it says."""
        nonlocal ends
        ends = int(time.time()) + LIFETIME_SECONDS
        exp = ends - LEEWAY_SECONDS
        return _user_token(passing, exp=exp, iat=exp - 600, nbf=exp - 600)

    async def pass_by(_: Tenant) -> float:
        await asyncio.sleep(0)
        return float(ends)

    def service_token() -> Metadata:
        token = bearer("EdDSA", MACHINES, sub="a service", org_id=None, scope="event:read")
        return (("authorization", token), ("x-organization-id", str(machine.account.organization_id)))

    return [
        Caller("user disabled", user, lambda: _user_token(user, sub="a user"), UNAUTHENTICATED, deny("a user")),
        Caller("service account disabled", machine, service_token, UNAUTHENTICATED, deny("a service")),
        Caller("token expired", passing, short_token, UNAUTHENTICATED, pass_by),
    ]


def _now(change: Callable[[Tenant], Awaitable[Any]]) -> Lose:
    async def lose(tenant: Tenant) -> float:
        await change(tenant)
        return time.time()

    return lose


def _key_id(tenant: Tenant) -> str:
    return tenant.key.split("_")[3]


def _user_token(tenant: Tenant, **claims: Any) -> Metadata:
    said = {"org_id": external_id_of(tenant.account.organization_id), "role": "member"}
    return (("authorization", bearer("EdDSA", PEOPLE, **(said | claims))),)


async def _lose(caller: Caller, pool: Pool, channel: grpc.aio.Channel) -> None:
    """Follow, lose the access while events come, and try to come back."""
    metadata = caller.credential()
    call = _subscribe(caller, channel, metadata)
    assert isinstance(await asyncio.wait_for(call.read(), READ_SECONDS), pb.TradingEvent), caller.way
    following = asyncio.ensure_future(_until_ended(caller, call))
    caller.lost_at = await caller.lose(caller.tenant)
    while not following.done():
        await accept(pool, caller.tenant.submission())
        await asyncio.sleep(PAUSE_SECONDS)
    ended_at, caller.ended = await following
    caller.seconds = ended_at - caller.lost_at
    _, caller.again = await _until_ended(caller, _subscribe(caller, channel, metadata))


def _subscribe(caller: Caller, channel: grpc.aio.Channel, metadata: Metadata) -> Any:
    stub: trading_pb2_grpc.TradingServiceAsyncStub = trading_pb2_grpc.TradingServiceStub(channel)
    request = pb.Subscribe(trading_account_id=str(caller.tenant.account.id), subscriptions=list(KINDS))
    return stub.SubscribeEvents(request, metadata=metadata, timeout=READ_SECONDS)


async def _until_ended(caller: Caller, call: Any) -> tuple[float, tuple[str, str]]:
    """When it ended, with which status and code."""
    try:
        while isinstance(frame := await call.read(), pb.TradingEvent):
            if frame.event_id:
                caller.last_event = frame.occurred_at.ToDatetime(UTC).timestamp()
    except grpc.aio.AioRpcError as error:
        told = {str(name): str(value) for name, value in error.trailing_metadata() or ()}
        return time.time(), (error.code().name, told.get("openbell-code", ""))
    return time.time(), ("OK", "")
