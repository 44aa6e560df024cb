"""What the bare engines do on this machine, without any of our code: the measure for everything that stands on them."""

import asyncio
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from openbell_server.adapters.postgres.connection import INDEX_PLANS, Role
from openbell_server.devtools.child_processes import ChildFailed
from openbell_server.devtools.local_postgres import LocalPostgres, find_postgres

CLIENTS = 8
_RATE = re.compile(r"^tps = ([0-9.]+)", re.MULTILINE)
_FAILED = re.compile(r"^number of failed transactions: ([0-9]+)", re.MULTILINE)
# An action and its outbox row, as narrow as they can be: no lock, no number, no receipt, no event, no key.
_FLOOR_SCHEMA = """
create table floor_action (
    id bigint generated always as identity primary key, intent_id uuid not null, account_id uuid not null,
    organization_id uuid not null, command_type text not null, symbol text, payload jsonb not null,
    principal text not null, created_at timestamptz not null default now()
);
create index on floor_action (account_id, id);
create index on floor_action (intent_id, id);
create table floor_outbox (
    id bigint generated always as identity primary key, event_type text not null, aggregate_id uuid not null,
    payload jsonb not null, status text not null default 'pending', attempts int not null default 0,
    created_at timestamptz not null default now(), claimed_at timestamptz, completed_at timestamptz
) with (fillfactor = 50);
create index on floor_outbox (id) where completed_at is null;
"""
_FLOOR = """with a as (
    insert into floor_action (intent_id, account_id, organization_id, command_type, symbol, payload, principal)
    values (
        gen_random_uuid(), '11111111-1111-4111-8111-111111111111', '22222222-2222-4222-8222-222222222222', 'CREATE',
        'AAPL',
        '{"symbol": "AAPL", "order_side": "BUY", "spec": {"Limit": {"price": "187.25", "quantity": "10"}}}',
        'key-abc'
    )
    returning id, intent_id, payload, created_at
), o as (
    insert into floor_outbox (event_type, aggregate_id, payload) select 'intent.submitted', intent_id, payload from a
)
select id, created_at from a;
"""
# Claims 256 rows and completes them, in two transactions, as a relay that has nobody to tell.
_CLAIM = """with c as (
    select id from floor_outbox
    where completed_at is null
        and (status = 'pending' or (status = 'processing' and claimed_at < now() - interval '5 seconds'))
    order by id limit 256 for update skip locked
), u as (
    update floor_outbox o set status = 'processing', claimed_at = now(), attempts = attempts + 1
    from c where o.id = c.id returning o.id, o.payload
)
select coalesce(array_agg(id), '{}') as ids, count(payload) as n from u \\gset
update floor_outbox set status = 'completed', completed_at = now()
where id = any (:ids::bigint[]) and status = 'processing';
"""
# More rows than a second takes.
_REFILL = (
    "truncate floor_outbox",
    """insert into floor_outbox (event_type, aggregate_id, payload)
    select 'intent.submitted', gen_random_uuid(), '{"symbol": "AAPL"}' from generate_series(1, 200000)""",
    "vacuum analyze floor_outbox",
)
# The accept step itself with a set of one: what a caller would do who had the function and no platform in front of it.
_SAME = """\\set account random(1, {accounts})
\\set one random(1, 140737488355327)
\\set two random(1, 140737488355327)
select * from accept_commands(
    array[('{prefix}' || lpad(to_hex(:one::bigint), 12, '0'))::uuid],
    array[('{prefix}' || lpad(to_hex(:two::bigint), 12, '0'))::uuid],
    array[('{prefix}' || lpad(to_hex(:one::bigint), 12, '0'))::uuid],
    array['{organization}'::uuid], array[('{account}' || lpad(to_hex(:account::bigint), 12, '0'))::uuid],
    array['CREATE'], array['key ' || :one::bigint], array['{hash}'::bytea], array[1::bigint], array[1::bigint],
    array['AAPL'], array['BUY'], array['LIMIT'], array['SMART'], array[10::numeric], array[187.25::numeric],
    array[null::numeric], array['DAY'], array[null::text], array['API_KEY'], array['{organization}'],
    array['{receipt}'], array[false]
);
"""


@dataclass(frozen=True)
class Engines:
    """The bare programs, against one server."""

    postgres: LocalPostgres
    folder: Path

    def floor(self, seconds: float, clients: int = CLIENTS) -> float:
        """Actions with an outbox row per second, one statement each."""
        return self._pgbench("floor", _FLOOR, clients, seconds, "floor")

    def same(self, seconds: float, accounts: int, organization_id: str, account_prefix: str, receipt: str) -> float:
        """Calls of the accept step per second, a set of one each."""
        # Ids of now: the accept step takes no others.
        millis = f"{time.time_ns() // 1_000_000:012x}"
        script = _SAME.format(
            accounts=accounts,
            prefix=f"{millis[:8]}-{millis[8:]}-7000-8000-",
            organization=organization_id,
            account=account_prefix,
            hash=r"\x" + "ab" * 32,
            # A colon before a letter would be a variable.
            receipt=receipt.replace(":", ": "),
        )
        # As the platform's own lanes are set: it must not lose to a worse plan of the same function.
        settings = {
            "role": Role.ACCEPT,
            "search_path": "openbell",
            "plan_cache_mode": "force_generic_plan",
            "jit": "off",
        }
        options = " ".join(f"-c {name}={value}" for name, value in {**settings, **INDEX_PLANS}.items())
        return self._pgbench("same", script, CLIENTS, seconds, "openbell", options)

    def claim_and_complete(self, seconds: float) -> float:
        """Rows claimed and completed per second by one client, of a table without a past."""
        asyncio.run(_execute(self.postgres.url("floor"), *_REFILL))
        return 256 * self._pgbench("claim", _CLAIM, 1, seconds, "floor")

    def _pgbench(self, name: str, script: str, clients: int, seconds: float, database: str, options: str = "") -> float:
        file = self.folder / f"{name}.sql"
        # The program reads a statement up to its semicolon, and a variable's line alone.
        file.write_text(script)
        command = [find_postgres() / "pgbench", "-n", "-M", "prepared", "-f", file, "-c", str(clients), "-j", "1"]
        command += [
            "-T",
            str(max(1, round(seconds))),
            "-h",
            str(self.postgres.socket_folder),
            "-p",
            str(self.postgres.port),
            "-U",
            "openbell",
        ]
        told = subprocess.run(
            [*map(str, command), database],
            env={**os.environ, "PGOPTIONS": options},
            capture_output=True,
            text=True,
            timeout=60 + seconds,
            check=False,
        )
        rate, failed = _RATE.search(told.stdout), _FAILED.search(told.stdout)
        if told.returncode != 0 or rate is None or (failed and failed[1] != "0"):
            raise ChildFailed(f"pgbench {name} failed:\n{told.stdout[-500:]}{told.stderr[-1500:]}")
        return float(rate[1])


async def create_floor(postgres: LocalPostgres) -> None:
    """The database of the floor."""
    await _execute(postgres.url(), "create database floor")
    await _execute(postgres.url("floor"), _FLOOR_SCHEMA)


async def _execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url, timeout=60)
    try:
        for statement in statements:
            await connection.execute(statement, timeout=120)
    finally:
        await connection.close(timeout=60)


def require_programs() -> None:
    """Fail before anything is measured."""
    if not (find_postgres() / "pgbench").exists():
        raise ChildFailed("pgbench is missing beside PostgreSQL: install the whole package of it.")
    if shutil.which("wrk") is None:
        raise ChildFailed("wrk is missing: apt-get install wrk")
