"""Relays deliver logs to targets that fail in every way, and are killed meanwhile; the targets judge what they got."""

import asyncio
import contextlib
import itertools
import json
import secrets
import shutil
import socket
import struct
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from uuid import UUID

from standardwebhooks import Webhook, WebhookVerificationError

from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.adapters.webhooks.posting import WebhookPoster
from openbell_server.application.webhooks.ports.posting import NotDelivered
from openbell_server.devtools.background_services import create_databases
from openbell_server.devtools.local_services import LocalServices
from openbell_server.devtools.stack import Stack
from openbell_server.domain.events.webhooks import secret_of
from proof.figures import Figures
from proof.waiting import until_none_left
from support.brokers.paper_broker import until
from support.builders.tenant import Tenant, a_tenant, accept, new_id
from support.builders.webhook_targets import a_target, answering
from support.environment.logins import allow_every_login

LOGS = Path("build/proof/webhooks-logs")
KEY = secrets.token_hex(32)
# What a target does instead of taking an event, each at most twice in a row, so that nobody waits for minutes.
FAILURES = ("500", "302", "reset", "half", "two lengths", "no HTTP", "stall")
# How it takes one.
TAKES = ("200", "200", "200", "204 with a body", "200 and closed", "huge", "drip")
STALL_SECONDS = 11.0
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is delivered, and through how much trouble."""

    tenants: int
    webhooks: int
    events: int
    kills: int
    relays: tuple[str, ...]
    # Whether what a killed relay held is taken from it at once, as if its time had run out.
    hurried: bool
    stalls: bool
    end_seconds: float

    @property
    def deliveries(self) -> int:
        return self.tenants * self.webhooks * self.events


SIZES = {
    "full": Size(
        tenants=50,
        webhooks=2,
        events=50,
        kills=8,
        relays=("relay", "relay-2"),
        hurried=False,
        stalls=True,
        end_seconds=400,
    ),
    "gate": Size(
        tenants=10,
        webhooks=2,
        events=10,
        kills=2,
        relays=("relay",),
        hurried=True,
        stalls=False,
        end_seconds=120,
    ),
}


@dataclass
class Lane:
    """What a target took of one account."""

    secret: str
    is_dead: bool
    numbers: list[int] = field(default_factory=list)
    failed_in_a_row: int = 0


@dataclass
class Targets:
    """Every target, at one port; which one is meant says the path."""

    random: Random
    stalls: bool
    lanes: dict[str, Lane] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    # While this is clear nobody answers, so a relay that has something to deliver has queues in hand.
    answering: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # At the end of the run some wait for a request that does not come.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._answer(reader, writer):
                pass
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.splitlines()
        headers = dict(line.split(": ", 1) for line in lines if line)
        body = await reader.readexactly(int(headers["content-length"]))
        lane = self.lanes[first.split()[1].removeprefix("/")]
        await self.answering.wait()
        mood = self._mood(lane)
        self._judge(lane, headers, body, is_taken=mood in TAKES)
        self.seen[mood] += 1
        return await behave(mood, writer)

    def _judge(self, lane: Lane, headers: dict[str, str], body: bytes, *, is_taken: bool) -> None:
        try:
            event = Webhook(lane.secret).verify(body, headers)
        except (WebhookVerificationError, ValueError):
            self.wrong["signature"] += 1
            return
        if headers["webhook-id"] != event["event_id"] or event["prev_seq"] != event["account_seq"] - 1:
            self.wrong["chain"] += 1
        # Again, or the next after those that were taken; anything else was sent out of order.
        if event["account_seq"] > len(lane.numbers) + 1:
            self.wrong["order"] += 1
        elif is_taken and event["account_seq"] == len(lane.numbers) + 1:
            lane.numbers.append(event["account_seq"])

    def _mood(self, lane: Lane) -> str:
        if lane.is_dead:
            return "500"
        if lane.failed_in_a_row < 2 and self.random.random() < 0.15:
            lane.failed_in_a_row += 1
            self.failed += 1
            # In turn, so that a short run meets all of them.
            return FAILURES[self.failed % (len(FAILURES) - (not self.stalls))]
        lane.failed_in_a_row = 0
        return self.random.choice(TAKES)


async def behave(mood: str, writer: asyncio.StreamWriter) -> bool:
    """Answer in this mood; whether the connection goes on."""
    answers = {
        "200": OK,
        "200 and closed": OK,
        "204 with a body": b"HTTP/1.1 204 No Content\r\n\r\n" + OK,
        "500": OK.replace(b"200", b"500"),
        "302": b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
        "half": b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf",
        "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nok",
        "no HTTP": b"ready\r\n\r\n",
        "huge": b"HTTP/1.1 200 OK\r\ncontent-length: 2000000\r\n\r\n" + b"x" * 2_000_000,
    }
    if mood == "stall":
        await asyncio.sleep(STALL_SECONDS)
    elif mood == "reset":
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    elif mood == "drip":
        for byte in OK:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.005)
    else:
        writer.write(answers[mood])
        await writer.drain()
    return mood in {"200", "500", "302", "drip"}


def prove(figures: Figures) -> None:
    size = SIZES[figures.size]
    shutil.rmtree(LOGS, ignore_errors=True)
    asyncio.run(_prove_targets(figures))
    settings = {
        "OPENBELL_WEBHOOK_KEY": KEY,
        "OPENBELL_WEBHOOK_PRIVATE_TARGETS": '["*"]',
        # Longer than the run: the queue that shall be parked is made to look as old as that.
        "OPENBELL_WEBHOOK_PARK_HOURS": "1",
    }
    with LocalServices() as services:
        create_databases(services.postgres.url())
        owner_url = services.postgres.url("openbell")
        migrate(owner_url)
        allow_every_login(owner_url)
        with Stack(services, settings, LOGS) as stack:
            asyncio.run(_prove(figures, owner_url, stack, size))


async def _prove(figures: Figures, url: str, stack: Stack, size: Size) -> None:
    targets = Targets(Random(7), size.stalls)
    server = await asyncio.start_server(targets.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with await open_pool(url) as pool:
        tenants = [await a_tenant(pool) for _ in range(size.tenants)]
        for tenant, _ in itertools.product(tenants, range(size.webhooks)):
            await _add_webhook(pool, targets, tenant, port)
        # Beside these one whose target never takes anything.
        dead = await _add_webhook(pool, targets, tenants[0], port, is_dead=True)
        for relay in size.relays:
            stack.start(relay)
        for relay in size.relays:
            await _ready(stack, relay)
        killed = await _trouble(pool, stack, targets, tenants, size)
        await until(partial(_is_made_old, pool, dead), size.end_seconds)

        async def undelivered() -> int:
            living = [lane for lane in targets.lanes.values() if not lane.is_dead]
            open_lanes = "select count(*) from webhook_lanes where parked_at is null and position < $1"
            missing = sum(max(0, size.events - len(lane.numbers)) for lane in living)
            return missing + int(await pool.fetchval(open_lanes, size.events))

        await until_none_left(undelivered, size.end_seconds)
        await _judge(figures, pool, targets, size, dead)
        figures.exactly("relays killed while they had lanes in hand", killed, size.kills)
        figures.exactly("relays that ended by themselves", len(stack.watch()), 0)
    server.close()


async def _is_made_old(pool: Pool, dead: UUID) -> bool:
    """Whether its queue has failed at least once, and now looks as if it had failed for two hours."""
    backdate = (
        "update webhook_lanes set failing_since = failing_since - interval '2 hours', next_attempt_at = now()"
        " where webhook_id = $1 and failing_since is not null"
    )
    return await pool.execute(backdate, dead) != "UPDATE 0"


async def _trouble(pool: Pool, stack: Stack, targets: Targets, tenants: list[Tenant], size: Size) -> int:
    """Events come in a few bursts, and after each but the last a relay is killed; how often while it delivered."""
    killed = 0
    per_burst = -(-size.events // (size.kills + 1))
    left = size.events
    for burst in range(size.kills + 1):
        if burst < size.kills:
            targets.answering.clear()
        for _ in range(min(per_burst, left)):
            await accept(pool, *(tenant.submission() for tenant in tenants))
        left -= min(per_burst, left)
        if burst < size.kills:
            relay = size.relays[burst % len(size.relays)]
            await until(partial(_is_delivering, pool), size.end_seconds)
            stack.kill(relay)
            killed += await _is_delivering(pool)
            if size.hurried:
                await pool.execute("update webhook_lanes set claimed_until = now() where claimed_until is not null")
            targets.answering.set()
            stack.start(relay)
            await _ready(stack, relay)
    return killed


async def _is_delivering(pool: Pool) -> bool:
    return bool(await pool.fetchval("select exists (select from webhook_lanes where claimed_until > now())"))


async def _ready(stack: Stack, relay: str) -> None:
    # A thread must not start processes, but it may wait for one.
    await asyncio.to_thread(stack.wait_ready, relay)


async def _add_webhook(pool: Pool, targets: Targets, tenant: Tenant, port: int, *, is_dead: bool = False) -> UUID:
    webhook_id, organization_id = new_id(), tenant.account.organization_id
    secret = secret_of(KEY.encode(), organization_id, webhook_id, 1)
    targets.lanes[str(webhook_id)] = Lane(secret.text, is_dead)
    await pool.execute(
        "insert into webhooks (organization_id, webhook_id, url, kinds, created_at, updated_at, principal_type,"
        " principal_id) values ($1, $2, $3, '{1,2,3,4,5,6,7}', now(), now(), 'USER', 'somebody')",
        organization_id,
        webhook_id,
        f"http://127.0.0.1:{port}/{webhook_id}",
    )
    return webhook_id


async def _judge(figures: Figures, pool: Pool, targets: Targets, size: Size, dead: UUID) -> None:
    living = [lane for lane in targets.lanes.values() if not lane.is_dead]
    parked = {row["webhook_id"] for row in await pool.fetch("select * from webhook_lanes where parked_at is not null")}
    lost = [size.events - len(targets.lanes[str(key)].numbers) for key in map(UUID, targets.lanes) if key not in parked]
    received = sum(len(lane.numbers) for lane in living)
    requests = sum(targets.seen.values())
    figures.at_least("events delivered to targets that answer", received, size.deliveries)
    figures.exactly("events neither delivered nor parked", sum(lost), 0)
    figures.exactly("events out of order", targets.wrong["order"], 0)
    figures.exactly("events that do not name the one before", targets.wrong["chain"], 0)
    figures.exactly("requests unsigned or wrongly signed", targets.wrong["signature"], 0)
    figures.exactly("lanes parked, of the target that takes nothing", int(dead in parked), 1)
    figures.exactly("lanes parked although their target answers", len(parked - {dead}), 0)
    figures.at_least("ways to fail met", len(set(FAILURES) & set(targets.seen)), len(FAILURES) - (not size.stalls))
    figures.shown("requests", requests)


def inside_urls(port: int) -> list[str]:
    """Ways to write where the decoy listens, or another place inside."""
    hosts = [
        *("127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001"),
        *("127.0.0.1.", "0", "0.0.0.0", "localhost", "localhost.", "LOCALHOST", "a.localhost", "127.255.255.254"),
        *("[::1]", "[::]", "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]"),
        *("[2002:7f00:1::]", "[fe80::1%25lo]", "[::1%25lo]", "127。0。0。1", "①②⑦.0.0.1", "user@127.0.0.1"),
        *("hooks.example.com@127.0.0.1", "hooks.example.com\\@127.0.0.1", "169.254.169.254", "10.0.0.1"),
        *("[fd00:ec2::254]", "100.100.100.200", "metadata.google.internal"),
    ]
    return [f"{scheme}://{host}:{port}/" for scheme in ("https", "http") for host in hosts]


# What a name server may answer for a name that looks like any other, one answer for each time it is asked.
ANSWERS = (
    *([["127.0.0.1"]], [["::1"]], [["::ffff:127.0.0.1"]], [["fe80::1%lo"]], [["0.0.0.0"]], [["10.0.0.1"]]),
    *([["169.254.169.254"]], [["100.64.0.1"]], [["64:ff9b::127.0.0.1"]], [["2002:7f00:1::"]], [["fd00::1"]]),
    *([["8.8.8.8", "127.0.0.1"]], [["127.0.0.1", "8.8.8.8"]], [["2606:4700::1111", "::1"]]),
)


@contextlib.asynccontextmanager
async def _posting(*answers: list[str]) -> AsyncIterator[WebhookPoster]:
    poster = WebhookPoster(resolve=answering(*answers) if answers else None, whole_seconds=60)
    try:
        yield poster
    finally:
        await poster.close()


async def _prove_targets(figures: Figures) -> None:
    """Nothing reaches a listener inside, however it is written, named or answered."""
    refused: defaultdict[bool, int] = defaultdict(int)
    async with a_target() as decoy:
        for url in inside_urls(decoy.port):
            async with _posting() as poster:
                refused[await _is_refused(poster, url)] += 1
        for answers in ANSWERS:
            async with _posting(*answers) as poster:
                refused[await _is_refused(poster, f"https://hooks.example.com:{decoy.port}/")] += 1
    figures.at_least("targets inside a network that are refused", refused[True], 30)
    figures.exactly("targets inside a network that are not refused", refused[False], 0)
    figures.exactly("connections that a listener inside saw", decoy.connections, 0)


async def _is_refused(poster: WebhookPoster, url: str) -> bool:
    try:
        await poster.post(url, {}, json.dumps({}).encode())
    except NotDelivered as trouble:
        return str(trouble).startswith("the url ")
    return False
