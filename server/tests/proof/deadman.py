"""Bots that promised heartbeats fall silent while processes and PostgreSQL are killed: each is halted, and no other.

Some bots only stop, others send a heartbeat too late; all go on sending orders. Others beat throughout, as well as they
can. What was accepted of a bot's heartbeats is compared with the database's history of switches and doors.
"""

import asyncio
import contextlib
import itertools
import random
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from openbell_server.adapters.postgres.connection import open_pool
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.domain.access.principals import PERMISSIONS
from proof.figures import Figures
from proof.nemesis import Kill, Nemesis
from proof.silent_bots import Bot, Stage
from support.builders.tenant import a_key
from support.rest.rest_api import create_body

SEED = 7
CALL_SECONDS = 3.0
AGAIN_SECONDS = 0.3
SILENT_SECONDS_MAX = 120.0
SETTLE_SECONDS = 90.0
POLL_SECONDS = 0.2
LATE_RATIO_MAX = 2.0
LOGS = Path("build/proof/deadman-logs")
HALTS = (
    "select scope, subject, count(*) as changes, min(changed_at) as changed_at, min(reason) as reason"
    " from openbell.control_changes where code = 'SWITCH' and principal_type = 'SYSTEM' and principal_id = 'heartbeat'"
    " group by scope, subject"
)
# Of commands of a halted scope.
_STOPPED = (
    " from openbell.action_states s join openbell.intent_actions a using (organization_id, account_id, intent_id, seq)"
    " join openbell.control_changes c on c.principal_id = 'heartbeat' and c.organization_id = s.organization_id"
    " and c.subject = case c.scope when 'KEY' then a.principal_id else s.account_id::text end"
)
DOORS_AFTER = f"select count(*) {_STOPPED} where s.action_type <> 'CANCEL' and s.send_started_at > c.changed_at"
STILL_WORKING = (
    f"select count(*) {_STOPPED} join openbell.orders o on o.organization_id = s.organization_id"
    " and o.account_id = s.account_id and o.order_id = s.intent_id where a.seq = 1 and o.standing <> 'CLOSED'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many bots fall silent and how many do not, and the trouble; pauses and timeouts are seconds."""

    silent: int
    at_once: int
    # Of these promise for an account instead of a key.
    of_accounts: int
    beating: int
    timeouts: tuple[int, int]
    # Of a bot's life, in timeouts.
    life: float
    processes: tuple[str, ...]
    # How often each of them is killed at least; they are killed until the last bot has fallen silent.
    kills: int
    kill_pause: float
    postgres: tuple[float, ...]
    postgres_pause: float


SIZES = {
    "full": Size(
        silent=200,
        at_once=20,
        of_accounts=20,
        beating=6,
        timeouts=(5, 12),
        life=2.0,
        processes=("api", "executor", "relay"),
        kills=3,
        kill_pause=3,
        # The third is the outage, which is longer than most timeouts.
        postgres=(2.0, 2.0, 20.0, 2.0),
        postgres_pause=20,
    ),
    "gate": Size(
        silent=15,
        at_once=15,
        of_accounts=3,
        beating=2,
        timeouts=(5, 6),
        life=0.7,
        processes=("api", "executor"),
        kills=1,
        kill_pause=0,
        postgres=(1.0,),
        postgres_pause=1,
    ),
}


def prove(figures: Figures) -> None:
    # Kept after the run, so that a finding can be traced.
    shutil.rmtree(LOGS, ignore_errors=True)
    size = SIZES[figures.size]
    with LocalPlatform(LOGS, accounts=size.of_accounts + 2) as platform:
        asyncio.run(_prove(figures, platform, size))


async def _prove(figures: Figures, platform: LocalPlatform, size: Size) -> None:
    silent, beating = await _bots(platform, size)
    async with _stage(platform) as stage:
        await _live(stage, size, silent, beating)
        owner = await asyncpg.connect(platform.owner_url)
        try:
            await _until_quiet(owner, silent)
        finally:
            await owner.close()
        await _restart_everything(stage, size)
        await _show(figures, stage, size, silent, beating)


async def _bots(platform: LocalPlatform, size: Size) -> tuple[list[Bot], list[Bot]]:
    chance = random.Random(SEED)
    organization_id = platform.seeded.organization_id
    accounts = [str(account_id) for account_id in platform.seeded.account_ids]
    async with await open_pool(platform.owner_url) as pool:
        made = [await a_key(pool, organization_id, permissions=PERMISSIONS) for _ in range(size.silent + size.beating)]
    bots = []
    for place, (principal, text) in enumerate(made):
        own_account = place < size.of_accounts
        bots.append(
            Bot(
                key=text,
                scope="ACCOUNT" if own_account else "KEY",
                subject=accounts[place] if own_account else principal.id,
                # The accounts that are left are shared by all other bots.
                account_id=accounts[place] if own_account else accounts[size.of_accounts + place % 2],
                timeout_seconds=chance.randint(*size.timeouts),
                is_late=place % 3 == 0,
            )
        )
    chance.shuffle(bots_of_silence := bots[: size.silent])
    return bots_of_silence, bots[size.silent :]


@asynccontextmanager
async def _stage(platform: LocalPlatform) -> AsyncIterator[Stage]:
    limits = httpx.Limits(max_connections=64)
    url = platform.client_environment()["OPENBELL_URL"]
    async with httpx.AsyncClient(base_url=url, timeout=CALL_SECONDS, limits=limits) as http:
        yield Stage(platform, http, Nemesis(platform))


async def _live(stage: Stage, size: Size, silent: Sequence[Bot], beating: Sequence[Bot]) -> None:
    """The bots' lives and the trouble, until all bots that fall silent noticed their halt."""
    done, left, chance = asyncio.Event(), iter(silent), random.Random(SEED)
    watching = asyncio.ensure_future(stage.nemesis.watch())
    steady = [asyncio.ensure_future(_beat_until(stage, bot, done)) for bot in beating]
    trouble = [
        asyncio.ensure_future(_kill_until(stage, size, done)),
        asyncio.ensure_future(_trouble_postgres(stage, size)),
    ]
    try:
        await asyncio.gather(*(_lives(stage, left, size, chance) for _ in range(size.at_once)))
    finally:
        done.set()
        await asyncio.gather(*trouble, *steady)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _kill_until(stage: Stage, size: Size, done: asyncio.Event) -> None:
    """Kill one process after the other, each at least as often as the size demands."""
    for times in itertools.count(1):
        for process in size.processes:
            await stage.nemesis.kill_all([Kill(process)], size.kill_pause)
        if done.is_set() and times >= size.kills:
            return


async def _lives(stage: Stage, left: Iterator[Bot], size: Size, chance: random.Random) -> None:
    for bot in left:
        await _live_and_fall_silent(stage, bot, bot.timeout_seconds * size.life * chance.random())


async def _live_and_fall_silent(stage: Stage, bot: Bot, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not bot.accepted:
        await stage.beat(bot)
        await asyncio.sleep(AGAIN_SECONDS)
    while time.monotonic() < end and not bot.missed:
        await stage.order(bot)
        await asyncio.sleep(bot.timeout_seconds / 3)
        await stage.beat(bot)
    silent_at = time.monotonic()
    while time.monotonic() - silent_at < SILENT_SECONDS_MAX:
        await asyncio.sleep(bot.timeout_seconds / 4)
        if bot.is_late and not bot.missed and datetime.now(UTC) > bot.accepted[-1][1] + timedelta(seconds=0.1):
            await stage.beat(bot)
        if await stage.order(bot):
            return


async def _beat_until(stage: Stage, bot: Bot, done: asyncio.Event) -> None:
    """Beat as well as possible; once it is missed the bot is one that fell silent."""
    while not done.is_set() and not bot.missed:
        is_accepted = await stage.beat(bot)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), bot.timeout_seconds / 4 if is_accepted else AGAIN_SECONDS)
    while not bot.missed:
        answer = await stage.send(bot, "DELETE", f"/v1/controls/heartbeats?scope={bot.scope}")
        if answer is not None and answer.status_code in (204, 404, 409):
            bot.missed += answer.status_code == 409
            return
        await asyncio.sleep(AGAIN_SECONDS)


async def _trouble_postgres(stage: Stage, size: Size) -> None:
    postgres = stage.platform.services.postgres
    for seconds in size.postgres:
        await asyncio.sleep(size.postgres_pause)
        since = datetime.now(UTC)
        postgres.kill()
        await asyncio.sleep(seconds)
        # This blocks the loop until it serves: a child must be started from the main thread.
        postgres.start()
        stage.away.append((since, datetime.now(UTC)))


async def _until_quiet(owner: "asyncpg.Connection[asyncpg.Record]", silent: Sequence[Bot]) -> None:
    """Until all that was silent is halted and none of their orders works, or for SETTLE_SECONDS."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline:
        halted = {(row["scope"], row["subject"]) for row in await owner.fetch(HALTS)}
        if all(bot.place in halted for bot in silent) and not await owner.fetchval(STILL_WORKING):
            return
        await asyncio.sleep(POLL_SECONDS)


async def _restart_everything(stage: Stage, size: Size) -> None:
    stage.platform.services.postgres.kill()
    stage.platform.services.postgres.start()
    for process in size.processes:
        stage.platform.stack.restart(process)


async def _show(figures: Figures, stage: Stage, size: Size, silent: Sequence[Bot], beating: Sequence[Bot]) -> None:
    owner = await asyncpg.connect(stage.platform.owner_url)
    try:
        halts = {(row["scope"], row["subject"]): row for row in await owner.fetch(HALTS)}
        last_beats = {
            (row["scope"], row["subject"]): row
            for row in await owner.fetch("select scope, subject, last_beat_at, expires_at from openbell.heartbeats")
        }
        doors, working = await owner.fetchval(DOORS_AFTER), await owner.fetchval(STILL_WORKING)
    finally:
        await owner.close()
    for process in size.processes:
        figures.at_least(f"{process} killed", stage.nemesis.kills[process], size.kills)
    figures.exactly("PostgreSQL killed", len(stage.away), len(size.postgres))
    bots = [*silent, *beating]
    figures.shown("heartbeats accepted", sum(len(bot.accepted) for bot in bots))
    figures.shown("orders sent by bots that fell silent", sum(bot.orders for bot in silent))
    figures.exactly("heartbeats missed", sum(bot.place in halts for bot in silent), size.silent)
    figures.exactly("missed and not halted", sum(bot.place not in halts for bot in silent), 0)
    early = [bot for bot in bots if bot.place in halts and _held_at(bot, halts[bot.place]["changed_at"])]
    figures.exactly("halted although heartbeats came in time", len(early), 0)
    figures.exactly("heartbeats accepted after the promise had run out", sum(bot.revived for bot in bots), 0)
    figures.exactly("halts that changed a switch twice", sum(row["changes"] > 1 for row in halts.values()), 0)
    _show_outage(figures, stage, bots, halts)
    ratios = [
        _seconds_here(stage.away, last_beats[bot.place]["last_beat_at"], halts[bot.place]["changed_at"])
        / bot.timeout_seconds
        for bot in bots
        if bot.place in halts
    ]
    name, latest = "latest halt after the last heartbeat / timeout, without PostgreSQL's absence", round(max(ratios), 2)
    # In the gate a machine that stands still for seconds decides this one.
    if figures.size == "full":
        figures.at_most(name, latest, LATE_RATIO_MAX)
    else:
        figures.shown(name, latest)
    figures.exactly("orders that passed their door after the halt", doors, 0)
    figures.exactly("orders of halted bots that still work", working, 0)
    latched = await asyncio.gather(*(_is_latched(stage, bot) for bot in silent))
    figures.exactly("halts not latched after everything was restarted", latched.count(False), 0)
    figures.exactly("processes that ended by themselves", len(stage.nemesis.ended), 0)


def _held_at(bot: Bot, moment: datetime) -> bool:
    """Whether an accepted heartbeat promised to last beyond this moment."""
    return any(beat_at <= moment < expires_at for beat_at, expires_at in bot.accepted)


def _show_outage(figures: Figures, stage: Stage, bots: Sequence[Bot], halts: dict[tuple[str, str], Any]) -> None:
    since, until = max(stage.away, key=lambda times: times[1] - times[0])
    during = [bot for bot in bots if bot.accepted and _ran_out(bot, since, until)]
    figures.shown("longest absence of PostgreSQL, s", round((until - since).total_seconds(), 1))
    figures.shown("promises that ran out during it", len(during))
    figures.exactly("of these not halted", sum(bot.place not in halts for bot in during), 0)
    inside = sum(since < row["changed_at"] < until - timedelta(seconds=2) for row in halts.values())
    figures.exactly("halts recorded during it", inside, 0)


def _ran_out(bot: Bot, since: datetime, until: datetime) -> bool:
    """Whether the last promise before the absence ended in it."""
    before = [expires_at for beat_at, expires_at in bot.accepted if beat_at < since]
    return bool(before) and since < before[-1] < until


def _seconds_here(away: Sequence[tuple[datetime, datetime]], since: datetime, until: datetime) -> float:
    """The time between, without that in which PostgreSQL was away."""
    gone = sum(max(0.0, (min(until, back) - max(since, left)).total_seconds()) for left, back in away)
    return (until - since).total_seconds() - gone


async def _is_latched(stage: Stage, bot: Bot) -> bool:
    """Whether its switch still refuses an order and another heartbeat."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline:
        path = f"/v1/accounts/{bot.account_id}/intents"
        answer = await stage.send(bot, "POST", path, create_body("Limit", price="0.01", quantity="1"))
        if answer is not None:
            return answer.status_code == 422 and "HALTED" in answer.text and not await stage.beat(bot)
        await asyncio.sleep(AGAIN_SECONDS)
    return False
