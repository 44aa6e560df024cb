"""Limits of two api processes on one Redis: kept by both together, and by each alone while Redis is gone."""

import asyncio
import contextlib
import itertools
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import httpx

from openbell_server.adapters.postgres.access.organizations import add_api_key
from openbell_server.adapters.postgres.connection import DatabaseClock, Role, open_pool, transaction
from openbell_server.devtools.child_processes import free_port
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.devtools.local_redis import LocalRedis
from openbell_server.domain.access import api_keys
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.principals import PERMISSIONS
from proof.figures import Figures
from support.rest.rest_api import cancel_body, create_body


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The limits, and for how many seconds they are pushed against; a minute only in the full size."""

    reads: int
    submits: int
    seconds: int
    trouble_seconds: int
    minute: bool


# Low enough for a small machine to bring more than they let pass.
SIZES = {
    "full": Size(reads=100, submits=100, seconds=10, trouble_seconds=10, minute=True),
    "gate": Size(reads=20, submits=20, seconds=3, trouble_seconds=2, minute=False),
}
READS_PER_MINUTE = 3000
PROCESSES = ("api", "api-2")
WORKERS = 12
OFFERED = 2
# Of the last second, so that what it lets pass has the time to come.
TAIL_SECONDS = 0.8
CANCELS = 20
BACK_SECONDS = 60
TRIES = 3
IN_REDIS, ALONE = "rate_limits_counted_in_redis", "rate_limits_counted_per_process"
TROUBLES = ("killed", "paused")


@dataclass
class Drive:
    """Calls of one kind, more than the limit lets pass, over both processes in turn."""

    limit: int
    send: Callable[[httpx.AsyncClient], "asyncio.Future[httpx.Response]"]
    answers: Counter[int] = field(default_factory=Counter)
    # When each that passed was sent, and when it was answered: it was let pass in between.
    passed: list[tuple[float, float]] = field(default_factory=list)
    # Refusals that do not say when to come again.
    mute: int = 0

    async def run(self, clients: list[httpx.AsyncClient], seconds: float) -> None:
        begun = time.monotonic()
        turns = itertools.count()
        await asyncio.gather(*(self._work(clients, turns, begun, begun + seconds) for _ in range(WORKERS)))

    async def _work(self, clients: list[httpx.AsyncClient], turns: Iterator[int], begun: float, end: float) -> None:
        for turn in turns:
            await asyncio.sleep(begun + turn / (OFFERED * self.limit) - time.monotonic())
            sent = time.monotonic()
            if sent >= end:
                return
            answer = await self.send(clients[turn % len(clients)])
            self.answers[answer.status_code] += 1
            if answer.status_code == 429:
                wanted = ("retry-after", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset")
                self.mute += not all(name in answer.headers for name in wanted)
            elif answer.is_success:
                self.passed.append((sent, time.monotonic()))

    def most_in_any(self, seconds: float) -> int:
        """The most that certainly passed within so many seconds of each other."""
        return max(
            (
                sum(start <= sent and answered < start + seconds for sent, answered in self.passed)
                for start, _ in self.passed
            ),
            default=0,
        )

    @property
    def failures(self) -> int:
        return sum(count for status, count in self.answers.items() if status >= 500)

    @property
    def others(self) -> int:
        return sum(count for status, count in self.answers.items() if status not in {200, 202, 429} and status < 500)


def prove(figures: Figures) -> None:
    size = SIZES[figures.size]
    settings = {
        "OPENBELL_LIMIT_READS_PER_SECOND": str(size.reads),
        "OPENBELL_LIMIT_SUBMITS_PER_SECOND": str(size.submits),
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalPlatform(Path(folder), settings, accounts=TRIES + 4, with_limits=True, with_redis=True) as platform,
    ):
        # Nothing is asked of the others.
        for name in ("executor", "relay", "stream", "paper"):
            platform.stack.kill(name)
        ports = (platform.stack.environment["OPENBELL_API_PORT"], str(free_port()))
        platform.stack.start("api-2", {"OPENBELL_API_PORT": ports[1]})
        platform.stack.wait_ready("api-2")
        asyncio.run(_prove(figures, platform, size, ports))


async def _prove(figures: Figures, platform: LocalPlatform, size: Size, ports: Iterable[str]) -> None:
    # Shorter than the server keeps a connection: none is used just as it ends.
    kept = httpx.Limits(keepalive_expiry=1)
    clients = [
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False, limits=kept)
        for port in ports
    ]
    redis = platform.services.redis
    assert redis is not None
    try:
        for drive in await _drives(platform, size, TRIES):
            # A process that never served plans its statements first; that is a start, not a pace.
            await drive.run(clients, 0.5)
        await _together(figures, platform, clients, size)
        for number, trouble in enumerate(TROUBLES, TRIES + 1):
            await _alone(figures, platform, clients, size, redis, trouble, number)
            if redis.pid is not None and trouble == "paused":
                os.kill(redis.pid, signal.SIGCONT)
            redis.start()
            await _until_back(platform, clients)
        if size.minute:
            await _minute(figures, platform, clients, size)
    finally:
        for client in clients:
            await client.aclose()


async def _drives(platform: LocalPlatform, size: Size, number: int) -> tuple[Drive, Drive]:
    """Reads of a principal and submits to an account that no one has used yet."""
    key, account = await _a_key(platform), platform.seeded.account_ids[number]
    url, headers = f"/v1/accounts/{account}/intents", {"x-api-key": key}
    command = create_body("Limit", price="0.01")

    def read(client: httpx.AsyncClient) -> "asyncio.Future[httpx.Response]":
        return asyncio.ensure_future(client.get(url, params={"limit": 1}, headers=headers))

    def submit(client: httpx.AsyncClient) -> "asyncio.Future[httpx.Response]":
        return asyncio.ensure_future(client.post(url, json=command, headers=headers))

    return Drive(size.reads, read), Drive(size.submits, submit)


async def _a_key(platform: LocalPlatform) -> str:
    organization = platform.seeded.organization_id
    text, presented = api_keys.mint(Environment.PAPER, os.urandom(api_keys.ENTROPY_BYTES))
    async with await open_pool(platform.owner_url) as pool:
        (key_id,) = await DatabaseClock(pool).new_ids(1)
        async with transaction(pool, Role.TENANT, organization) as connection:
            await add_api_key(
                connection,
                organization,
                key_id,
                presented,
                name="limits",
                environment=Environment.PAPER,
                permissions=PERMISSIONS,
            )
    return text


async def _together(figures: Figures, platform: LocalPlatform, clients: list[httpx.AsyncClient], size: Size) -> None:
    """Both processes are pushed; again if the machine was too slow for them to hear Redis in time."""
    cancels: Counter[int] = Counter()

    async def cancel(account: object) -> None:
        key, url = platform.seeded.api_key, f"/v1/accounts/{account}/intents"
        for number in range(CANCELS):
            await asyncio.sleep(size.seconds / CANCELS)
            answer = await clients[number % 2].post(url, json=cancel_body(uuid4()), headers={"x-api-key": key})
            cancels[answer.status_code] += 1

    seconds = size.seconds + TAIL_SECONDS
    slow = -1
    for number in range(TRIES):
        reads, submits = await _drives(platform, size, number)
        before = _times_alone(platform)
        account = platform.seeded.account_ids[number]
        await asyncio.gather(reads.run(clients, seconds), submits.run(clients, seconds), cancel(account))
        slow += 1
        if _times_alone(platform) == before:
            break
        await _until_back(platform, clients)
    for what, drive in (("reads of a principal", reads), ("submits to an account", submits)):
        allowed = drive.limit * (size.seconds + 1)
        figures.shown(f"{what} allowed in a second", drive.limit)
        figures.shown(f"{what} sent in {seconds:g} s", drive.answers.total())
        passed = f"{what} let pass, of {allowed} allowed"
        # A machine that is too slow to send as many decides this one.
        if figures.size == "full":
            figures.at_least(passed, len(drive.passed), round(allowed * 0.9))
        else:
            figures.shown(passed, len(drive.passed))
        figures.at_most(f"{what} let pass in any 1 s, at most", drive.most_in_any(1), round(drive.limit * 1.1))
        figures.exactly(f"{what} answered otherwise", drive.failures + drive.others, 0)
        figures.exactly(f"{what} refused without Retry-After", drive.mute, 0)
    figures.exactly("cancels refused while submits were used up", cancels[429], 0)
    figures.shown("runs before this one in which a process found Redis too slow", slow)


async def _alone(
    figures: Figures,
    platform: LocalPlatform,
    clients: list[httpx.AsyncClient],
    size: Size,
    redis: LocalRedis,
    trouble: str,
    number: int,
) -> None:
    """Redis goes away while both are pushed: each process keeps the limit by itself, and no call fails."""
    reads, submits = await _drives(platform, size, number)
    said = _times_alone(platform)

    async def bring_trouble() -> None:
        await asyncio.sleep(size.trouble_seconds / 3)
        assert redis.pid is not None
        os.kill(redis.pid, signal.SIGKILL if trouble == "killed" else signal.SIGSTOP)

    seconds = size.trouble_seconds + TAIL_SECONDS
    await asyncio.gather(reads.run(clients, seconds), submits.run(clients, seconds), bring_trouble())
    for what, drive in (("reads of a principal", reads), ("submits to an account", submits)):
        figures.exactly(f"{what} answered 5xx with Redis {trouble}", drive.failures, 0)
        figures.exactly(f"{what} answered otherwise with Redis {trouble}", drive.others, 0)
        most = drive.most_in_any(1)
        figures.at_most(f"{what} let pass in any 1 s with Redis {trouble}, at most", most, 2 * drive.limit)
        figures.shown(f"{what} refused with Redis {trouble}", drive.answers[429])
    # On a slow machine a process may not have asked Redis again yet.
    with contextlib.suppress(TimeoutError):
        await _read_until(platform, clients, lambda: _times_alone(platform) - said >= len(PROCESSES))
    figures.at_least(f"times a process reported that Redis was away, {trouble}", _times_alone(platform) - said, 2)


async def _until_back(platform: LocalPlatform, clients: list[httpx.AsyncClient]) -> None:
    """Redis is there, and both processes count in it: once at its start, and once for each time that it came back."""
    await _read_until(
        platform,
        clients,
        lambda: all(_said(platform, name, IN_REDIS) > _said(platform, name, ALONE) for name in PROCESSES),
    )


async def _read_until(platform: LocalPlatform, clients: list[httpx.AsyncClient], is_so: Callable[[], bool]) -> None:
    """Read through both processes meanwhile: they ask Redis only when they are asked."""
    key = await _a_key(platform)
    url = f"/v1/accounts/{platform.seeded.account_ids[0]}/intents"
    async with asyncio.timeout(BACK_SECONDS):
        while not is_so():
            for client in clients:
                await client.get(url, params={"limit": 1}, headers={"x-api-key": key})
            await asyncio.sleep(0.05)


def _said(platform: LocalPlatform, name: str, event: str) -> int:
    return platform.stack.log(name).read_text().count(f'"event": "{event}"')


def _times_alone(platform: LocalPlatform) -> int:
    return sum(_said(platform, name, ALONE) for name in PROCESSES)


async def _minute(figures: Figures, platform: LocalPlatform, clients: list[httpx.AsyncClient], size: Size) -> None:
    reads, _ = await _drives(platform, size, TRIES + 3)
    await reads.run(clients, 75)
    most = reads.most_in_any(60)
    figures.at_least("reads let pass in the fullest 60 s", most, round(READS_PER_MINUTE * 0.9))
    figures.at_most("reads let pass in any 60 s, at most", most, round(READS_PER_MINUTE * 1.1))
