"""Twice as many orders as the whole path can fill, for a minute: fills go on, cancels are accepted, no order is late.

The capacity is measured before and after, on the same platform, because the speed of a machine changes.
"""

import asyncio
import itertools
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import ceil
from pathlib import Path
from statistics import mean, quantiles
from typing import Final

from openbell_server.application.execution.execute_action import DOOR_SECONDS
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.domain.identifiers import ActionId, client_order_id
from proof.books import resting_orders, rows, until_at_rest, until_settled
from proof.bursts import offer, plan_of
from proof.cost_cpu import seconds_between
from proof.cost_load import Sent
from proof.cost_platform import long_way, meter_of, started
from proof.figures import Figures
from proof.filled_once import Name, compare_ledgers, paper_ledger
from proof.waiting import until_none_left

ACCOUNTS: Final = 20
# How many times more is offered than can be filled.
TIMES: Final = 2
CANCELS_PER_SECOND: Final = 20
# As many as a server takes; enough for answers that take three seconds.
CONNECTIONS_MAX: Final = 1900
# One address may open fewer, unless it is a proxy.
_MANY_CONNECTIONS: Final = {"OPENBELL_TRUSTED_PROXIES": '["127.0.0.1/32"]'}
GOODPUT_MIN: Final = 0.85
_UNFILLED: Final = "select count(*) from openbell.orders where standing <> 'CLOSED' and order_type = 'MARKET'"
_LAST_FILL: Final = "select extract(epoch from max(recorded_at))::float8 from openbell.executions"
_EXECUTED_BETWEEN: Final = """
select (
    select count(*) from openbell.executions
    where recorded_at >= to_timestamp($1::float8) and recorded_at < to_timestamp($2::float8)
), (
    select count(*) from openbell.orders
    where close_reason = 'CANCELED' and updated_at >= to_timestamp($1::float8) and updated_at < to_timestamp($2::float8)
)
"""
# The door of the last attempt.
_DOORS: Final = """
select account_id, action_id, send_started_at from openbell.action_states
where action_type = 'CREATE' and send_started_at is not null
"""
_RECEIVED: Final = "select account_id, client_order_id, received_at from requests where kind = 'SUBMIT'"
_EXPIRED: Final = "select count(*) from requests where done = 'expired'"
_NOT_CANCELED: Final = """
select count(*) from openbell.orders where order_type = 'LIMIT' and close_reason is distinct from 'CANCELED'
"""


@dataclass(frozen=True, slots=True)
class Size:
    """Orders of a burst that measures the capacity, and how long twice as much is offered."""

    burst: int
    seconds: int


SIZES: Final = {"full": Size(burst=5000, seconds=60), "gate": Size(burst=300, seconds=5)}


@dataclass
class _Path:
    """A platform from its api to its broker."""

    platform: LocalPlatform
    accepted: int = 0
    _marks: Iterator[int] = field(default_factory=itertools.count)

    async def capacity(self, burst: int) -> float:
        """Fills per second of a burst; other orders may rest at the broker."""
        sent = await offer(plan_of(self.platform, self._mark(), burst))
        self.accepted += sent.accepted
        await until_none_left(self._unfilled)
        ((last_fill,),) = await rows(self.platform.owner_url, _LAST_FILL)
        return sent.accepted / (float(last_fill) - sent.began_at)

    async def place_resting(self, orders: int) -> list[tuple[str, str]]:
        """Account and intent of limit orders that are not filled."""
        await offer(replace(plan_of(self.platform, self._mark(), orders), limit_price="1"))
        await until_at_rest(self.platform)
        return await resting_orders(self.platform)

    async def overload(self, per_second: float, seconds: int, cancels: list[tuple[str, str]]) -> Sent:
        """Market orders at this rate, and the cancels beside them."""
        rate = per_second + len(cancels) / seconds
        plan = replace(
            plan_of(self.platform, self._mark(), round(per_second * seconds)),
            rate=rate,
            cancels=cancels,
            connections=min(CONNECTIONS_MAX, ceil(3 * rate)),
            tries_again=False,
        )
        sent = await offer(plan)
        self.accepted += sent.accepted
        return sent

    async def executed(self, began_at: float, seconds: float) -> tuple[int, int]:
        """Orders that were filled, and orders that were canceled."""
        ((fills, canceled),) = await rows(self.platform.owner_url, _EXECUTED_BETWEEN, began_at, began_at + seconds)
        return int(fills), int(canceled)

    async def _unfilled(self) -> int:
        ((unfilled,),) = await rows(self.platform.owner_url, _UNFILLED)
        return int(unfilled)

    def _mark(self) -> str:
        return f"saturation-{next(self._marks)}"


def prove(figures: Figures) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        started(Path(folder), ACCOUNTS, _MANY_CONNECTIONS, counts_statements=False) as platform,
    ):
        asyncio.run(_prove(figures, _Path(platform), SIZES[figures.size]))


async def _prove(figures: Figures, path: _Path, size: Size) -> None:
    # Every account is seen once, and every plan is made.
    await path.capacity(ceil(size.burst / 10))
    resting = await path.place_resting(CANCELS_PER_SECOND * size.seconds)
    before = await path.capacity(size.burst)
    meter = meter_of(path.platform)
    idle, ordinary = meter.read(), await long_way(path.platform) or {}
    sent = await path.overload(TIMES * before, size.seconds, resting)
    used, unusual = seconds_between(idle, meter.read()), await long_way(path.platform) or {}
    fills, canceled = await path.executed(sent.began_at, size.seconds)
    goodput = (fills + canceled) / size.seconds
    left = await until_settled(path.platform)
    after = await path.capacity(size.burst)
    capacity = mean((before, after))
    figures.shown("capacity before and after, fills/s", f"{before:.0f}, {after:.0f}")
    offered = round(TIMES * before * size.seconds)
    figures.shown("orders offered / capacity", round(offered / sent.offered_seconds / capacity, 2))
    figures.shown("orders offered", offered)
    figures.shown("of these refused", offered - sent.accepted)
    figures.shown("answers while overloaded, p50 and p99 ms", f"{sent.p50_millis:.0f}, {sent.p99_millis:.0f}")
    figures.shown(
        "fills/s and cancels/s while overloaded", f"{fills / size.seconds:.0f}, {canceled / size.seconds:.0f}"
    )
    figures.at_least("intents executed while overloaded / capacity", round(goodput / capacity, 3), GOODPUT_MIN)
    figures.shown("cancels while overloaded", len(resting))
    figures.shown("cancels while overloaded, p99 ms", round(sent.cancels_p99_millis))
    figures.exactly("cancels while overloaded that were not accepted", len(resting) - sent.cancels_accepted, 0)
    for refusal in sent.cancel_refusals:
        print(f"a cancel was refused: {refusal}", flush=True)
    reasons = {reason: number - ordinary.get(reason, 0) for reason, number in unusual.items()}
    figures.shown("long ways while overloaded", ", ".join(f"{k} {v:.0f}" for k, v in reasons.items() if v) or "none")
    used["load generator"] = sent.cpu_seconds
    for label, seconds in sorted(used.items(), key=lambda each: -each[1]):
        if seconds >= sent.seconds / 100:
            figures.shown(f"processors used by {label} while overloaded", round(seconds / sent.seconds, 2))
    await _show_ledgers(figures, path, left)


async def _show_ledgers(figures: Figures, path: _Path, left: int) -> None:
    """What became of all commands of the run."""
    platform = path.platform
    doors = await rows(platform.owner_url, _DOORS)
    opened = {(row[0], client_order_id(ActionId(row[1]))): row[2] for row in doors}
    received: dict[Name, list[datetime]] = {}
    for account, name, at in await rows(paper_ledger(platform), _RECEIVED):
        received.setdefault((account, name), []).append(at)
    waits = door_to_broker(opened, received)
    p50, p99 = (1000 * quantiles(waits, n=100)[place] for place in (49, 98))
    figures.shown("from the door to the broker, p50, p99 and max ms", f"{p50:.0f}, {p99:.0f}, {1000 * max(waits):.0f}")
    late = sum(wait > DOOR_SECONDS for wait in waits)
    figures.exactly(f"orders received by the broker later than {DOOR_SECONDS:g} s after their door", late, 0)
    ((expired,),) = await rows(paper_ledger(platform), _EXPIRED)
    figures.exactly("commands that expired before the broker received them", expired, 0)
    figures.exactly("orders and actions unsettled in the end", left, 0)
    comparison = await compare_ledgers(platform)
    figures.exactly("market orders not filled exactly once", path.accepted - comparison.filled_once, 0)
    figures.exactly("market orders doubled", comparison.doubled, 0)
    ((not_canceled,),) = await rows(platform.owner_url, _NOT_CANCELED)
    figures.exactly("resting orders whose cancel did not end them", not_canceled, 0)


def door_to_broker(opened: Mapping[Name, datetime], received: Mapping[Name, list[datetime]]) -> list[float]:
    """Seconds from the door of each order until the broker received it; the last time, as the door is the last one's.

    The processes share one machine, and so one clock.
    """
    return [(max(received[name]) - door) / timedelta(seconds=1) for name, door in opened.items() if name in received]
