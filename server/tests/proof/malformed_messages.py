"""Protobuf messages that are wrong in one way, and the world that they are sent to."""

import random
from dataclasses import dataclass
from typing import Any, Final

import grpc

from openbell.wire import trading_pb2 as pb
from openbell_server.adapters.postgres.connection import Pool
from support.builders.tenant import Tenant, a_key, a_tenant, an_account

SUBSCRIBE: Final = "/trading.TradingService/SubscribeEvents"
STREAM: Final = "/trading.TradingService/StreamEvents"
Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class World:
    """Who asks, whose accounts there are, and tokens that were given for each."""

    tenant: Tenant
    own_token: str
    sibling_token: str
    foreign_id: str
    foreign_token: str
    expired_key: str

    @property
    def account_id(self) -> str:
        return str(self.tenant.account.id)

    @property
    def key(self) -> Metadata:
        return (("x-api-key", self.tenant.key),)

    def good(self, **fields: Any) -> bytes:
        """A request that is right but for the fields given."""
        said = {"trading_account_id": self.account_id, "subscriptions": [1, 2], **fields}
        return pb.Subscribe(**said).SerializeToString()


@dataclass(frozen=True, slots=True)
class Call:
    """What is sent."""

    body: bytes
    metadata: Metadata
    method: str = SUBSCRIBE


def varint(number: int) -> bytes:
    """As protobuf writes numbers."""
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def flipped(chance: random.Random, text: str) -> str:
    """Another sign of the same alphabet at one place."""
    at = chance.randrange(len(text))
    signs = [sign for sign in "ABCXYZabcxyz0189" if sign != text[at]]
    return text[:at] + chance.choice(signs) + text[at + 1 :]


def no_uuid(chance: random.Random, world: World) -> str:
    """Something else where an account should be."""
    flipped = list(world.account_id)
    flipped[chance.choice([0, 9, 14, 35])] = "g"
    return chance.choice(["x", "".join(flipped), world.account_id[:-1], "0" * 37, "\u0661" * 8, "'; --", " " * 36])


async def a_world(pool: Pool, channel: grpc.aio.Channel) -> World:
    """Two organizations, and a token for each account of theirs."""
    tenant, other = await a_tenant(pool), await a_tenant(pool)
    organization = tenant.account.organization_id
    sibling = await an_account(pool, organization)
    expired, text = await a_key(pool, organization)
    await pool.execute("update api_keys set expires_at = now() where api_key_id = $1::text::uuid", expired.id)
    tokens = []
    for account_id, key in (
        (tenant.account.id, tenant.key),
        (sibling.id, tenant.key),
        (other.account.id, other.key),
    ):
        request = pb.Subscribe(trading_account_id=str(account_id), subscriptions=[pb.EVENT_TYPE_BROKER_ORDER])
        call = open_call(channel, Call(request.SerializeToString(), (("x-api-key", key),)), 20)
        tokens.append(pb.TradingEvent.FromString(await call.read()).resume_token)
        call.cancel()
    return World(tenant, tokens[0], tokens[1], str(other.account.id), tokens[2], text)


def open_call(channel: grpc.aio.Channel, call: Call, seconds: float) -> Any:
    """Bytes out and in: nothing is put right on the way."""
    opened: Any = channel.unary_stream(call.method)
    return opened(call.body, metadata=call.metadata, timeout=seconds)
