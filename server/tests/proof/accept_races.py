"""Two processes that accept commands for the same accounts: nothing waits in a circle, no number is missing."""

import asyncio
import itertools
import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from random import Random
from time import monotonic

import asyncpg
import uvloop

from openbell_server.domain.controls.receipts import Receipt
from proof.figures import Figures
from proof.speed_bench import SpeedBench, accepting, account_id, remembered_tenant
from support.builders.tenant import a_limit_create

ACCOUNTS = 50
# Processes, and how many commands each has under way.
CROWDS = {"full": (2, 64), "gate": (2, 16)}
# Small sets that overlap in part: what waits in a circle where nobody keeps to an order.
MUTANT_CROWD = (4, 8)
COMMANDS = {"full": 100_000, "gate": 2_000}
MUTANT_COMMANDS = 2_000
# What keeps accounts in order, and instead of it a random one with a pause after each: whether two sets meet half-way
# must not depend on how fast the machine is.
_IN_ORDER = {
    "perform 1\n    from (\n        select distinct": "perform pg_sleep(0.002)\n    from (\n        select distinct",
    "order by c.account_id for no key update of c": "order by random() for no key update of c",
}
_CHECKS = {
    "accounts whose actions are not numbered without a gap": """
        select count(*) from account_counters c where c.action_no <> (
            select count(distinct a.action_no) from intent_actions a
            where a.account_id = c.account_id and a.action_no between 1 and c.action_no
        )""",
    "accounts whose events are not numbered without a gap": """
        select count(*) from account_counters c where c.event_no <> (
            select count(distinct e.event_no) from account_events e
            where e.account_id = c.account_id and e.event_no between 1 and c.event_no
        )""",
    "actions without their order, state, receipt, outbox row, event or key": """
        select count(*) from intent_actions a
        left join orders o on o.account_id = a.account_id and o.order_id = a.intent_id
        left join action_states s on s.account_id = a.account_id and s.action_id = a.action_id
        left join receipts r on r.account_id = a.account_id and r.receipt_id = a.receipt_id
        left join account_events e on e.account_id = a.account_id and e.intent_id = a.intent_id and e.seq = a.seq
        left join idempotency_keys k on k.account_id = a.account_id and k.intent_id = a.intent_id and k.seq = a.seq
        where o.order_id is null or s.action_id is null or r.receipt_id is null or e.event_no is null or k.key is null
            or not exists (select 1 from intent_outbox x where x.action_id = a.action_id)""",
}


def measure(figures: Figures, bench: SpeedBench) -> None:
    commands = COMMANDS[figures.size]
    before = asyncio.run(_deadlocks(bench.url))
    counted = _run(bench, commands, *CROWDS[figures.size])
    figures.exactly("commands of two processes for the same 50 accounts: accepted", counted["ACCEPTED"], commands)
    figures.exactly("commands tried again, alone", counted["again"], 0)
    figures.exactly("deadlocks", asyncio.run(_deadlocks(bench.url)) - before, 0)
    for name, statement in _CHECKS.items():
        figures.exactly(name, asyncio.run(_value(bench.url, statement)), 0)
    asyncio.run(_without_order(bench.url))
    before = asyncio.run(_deadlocks(bench.url))
    _run(bench, MUTANT_COMMANDS, *MUTANT_CROWD)
    figures.at_least("deadlocks where accounts are not locked in order", asyncio.run(_deadlocks(bench.url)) - before, 1)


def _run(bench: SpeedBench, commands: int, processes: int, callers: int) -> Counter[str]:
    """What became of the commands, by status; those that were tried again alone are counted beside."""
    asked = {"url": bench.url, "tenant": bench.tenant_facts(), "commands": commands // processes, "callers": callers}
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "proof.accept_races"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(processes)
    ]
    for process in running:
        assert process.stdin is not None
        process.stdin.write(json.dumps(asked))
        process.stdin.close()
    counted: Counter[str] = Counter()
    for process in running:
        assert process.stdout is not None
        counted.update(json.loads(process.stdout.read()))
        assert process.wait(60) == 0
    return counted


async def _deadlocks(url: str) -> int:
    # What a session counted is seen by others once it has ended, or said so.
    return await _value(url, "select deadlocks from pg_stat_database where datname = current_database()", pause=1.2)


async def _value(url: str, statement: str, pause: float = 0.0) -> int:
    connection = await asyncpg.connect(url, timeout=60, server_settings={"search_path": "openbell"})
    try:
        await connection.execute(f"select pg_sleep({pause})")
        value: int = await connection.fetchval(statement, timeout=300)
        return value
    finally:
        await connection.close(timeout=60)


async def _without_order(url: str) -> None:
    connection = await asyncpg.connect(url, timeout=60)
    try:
        written: str = await connection.fetchval("select pg_get_functiondef('openbell.accept_commands'::regproc)")
        for ordered, random in _IN_ORDER.items():
            assert written.count(ordered) == 1
            written = written.replace(ordered, random)
        await connection.execute(written)
    finally:
        await connection.close(timeout=60)


async def _accept(url: str, facts: dict[str, str], commands: int, callers: int) -> Counter[str]:
    """As one process of the platform."""
    tenant, numbers, counted = remembered_tenant(facts), itertools.count(), Counter[str]()
    accounts = [replace(tenant.account, id=account_id(number)) for number in range(1, ACCOUNTS + 1)]
    dice, receipt, mark = Random(), Receipt("PASSED", '{"rules":[]}'), f"{monotonic()}"

    async with accepting(url) as (accept, again):

        async def call() -> None:
            while (number := next(numbers)) < commands:
                submission = replace(
                    tenant.submission(a_limit_create(), receipt=receipt),
                    account=accounts[dice.randrange(ACCOUNTS)],
                    idempotency_key=f"{mark} {number}",
                )
                try:
                    counted[(await accept(submission)).status] += 1
                except Exception as error:  # noqa: BLE001 - where accounts are not locked in order, anything may come
                    counted[type(error).__name__] += 1

        await asyncio.gather(*(call() for _ in range(callers)))
        counted["again"] = again()
    return counted


if __name__ == "__main__":
    told = json.load(sys.stdin)
    print(json.dumps(uvloop.run(_accept(told["url"], told["tenant"], told["commands"], told["callers"]))))
