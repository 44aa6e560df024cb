"""The doctor: a clean platform has no problem, and each planted misconfiguration is found and its fix named."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest.mock
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import nats
from nats.js.api import DiscardPolicy, StorageType, StreamConfig

from openbell_server.adapters.jetstream.streams import STREAMS
from openbell_server.adapters.postgres.connection import LOGIN_ROLES, Role
from openbell_server.adapters.postgres.migrate import allow_logins, logins_of, migrate
from openbell_server.adapters.postgres.schema import OLDEST
from openbell_server.adapters.vault.envelope import EnvelopeSealer
from openbell_server.adapters.vault.key_file import KeyFile, create_key_files
from openbell_server.brokers.registry import BROKERS
from openbell_server.devtools.child_processes import Child, free_port, wait_until
from openbell_server.devtools.local_nats import find_nats
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.devtools.local_postgres import LocalPostgres
from openbell_server.devtools.stack import LOGINS, PROCESSES
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import SecretPlace, Secrets
from openbell_server.processes.doctor.run_checks import report, run_checks
from openbell_server.settings import Settings
from openbell_server.telemetry.logs import configure_logging
from proof.figures import Figures

COMMAND_SECONDS = 120
SHIFT_SECONDS = 45
TRIES = 5
CANARY = "planted-password-93c1"
Report = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Plant:
    """A misconfiguration: what is set otherwise, which check must find it, and a word that its fix must have."""

    name: str
    area: str
    check: str
    fix: str
    settings: Mapping[str, str] = field(default_factory=dict)
    process: str = "api"


def prove(figures: Figures) -> None:
    configure_logging("proof", "CRITICAL")
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalPlatform(Path(folder) / "logs", with_limits=True) as platform,
        _bad_nats(Path(folder)) as (bad_nats, bad_monitor),
        _careless_postgres(Path(folder)) as careless,
    ):
        clean = {name: _look(platform, name) for name in PROCESSES}
        figures.exactly("problems found on a clean platform", sum(each["problems"] for each in clean.values()), 0)
        figures.exactly("checks that could not be made there", sum(each["cannot_tell"] for each in clean.values()), 0)
        figures.shown("checks of a clean platform", sum(len(each["findings"]) for each in clean.values()))
        figures.exactly("exit status of the command on it", _well(platform.stack.environment_of("api")), 0)
        status, _ = _command(platform.stack.environment_of("api") | {"OPENBELL_NATS_MONITOR_URL": ""})
        figures.exactly("exit status of the command where one check cannot be made", status, 2)
        plants = [
            *_of_settings(),
            *_of_logins(platform),
            *_of_databases(platform, careless),
            *_of_nats(bad_nats, bad_monitor),
            *_of_vault(platform, Path(folder)),
        ]
        found = [_is_found(plant, _look(platform, plant.process, plant.settings)) for plant in plants]
        found += _of_work(platform)
        found += _of_clocks(platform)
        figures.at_least("misconfigurations planted", len(found), 12)
        figures.exactly("found, with their fix named", sum(found), len(found))
        plain = platform.stack.environment_of("api") | {"OPENBELL_CURSOR_SECRET": "guess"}
        url = plain["OPENBELL_DATABASE_URL"].replace("@", f":{CANARY}@").replace("/openbell", "/nowhere")
        status, said = _command(plain | {"OPENBELL_DATABASE_URL": url}, as_json=False)
        figures.exactly("exit status of the command with problems", status, 1)
        figures.exactly("passwords in what it prints", said.count(CANARY), 0)


def _look(platform: LocalPlatform, process: str, settings: Mapping[str, str] | None = None) -> Report:
    """What the doctor finds with a process's settings, some of them changed."""
    with _environment(platform.stack.environment_of(process) | dict(settings or {})):
        chosen = Settings()
    return report(process, asyncio.run(run_checks(chosen, process)))


@contextlib.contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(wanted)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _command(environment: Mapping[str, str], *, as_json: bool = True) -> tuple[int, str]:
    """The command itself: its exit status and all that it prints."""
    run = subprocess.run(
        [sys.executable, "-m", "openbell_server", "doctor", *(["--json"] if as_json else [])],
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    return run.returncode, run.stdout if as_json and run.returncode < 2 else run.stdout + run.stderr


def _well(environment: Mapping[str, str]) -> int:
    """The exit status; on a starved machine a check may not be answered in its five seconds, and is made again."""
    status = 2
    for _ in range(TRIES):
        status = _command(environment)[0]
        if status != 2:
            break
    return status


def _is_found(plant: Plant, found: Report) -> bool:
    for finding in found["findings"]:
        if (finding["area"], finding["check"]) == (plant.area, plant.check):
            ok = finding["level"] == "problem" and plant.fix in finding["fix"]
            print(f"{'found ' if ok else 'MISSED'}  {plant.name}: {finding['what']} {finding['fix']}", flush=True)
            return ok
    print(f"MISSED  {plant.name}: nothing looked at it", flush=True)
    return False


def _of_settings() -> Sequence[Plant]:
    nobody = f"127.0.0.1:{free_port()}"
    issuer = {"name": "people", "jwks_address": f"http://{nobody}/keys", "audience": "a", "token_type": "at+jwt"}
    issuers = json.dumps([{**issuer, "kind": "USER"}])
    workos = {"OPENBELL_WORKOS_API_KEY": CANARY, "OPENBELL_WORKOS_BASE_URL": f"http://{nobody}"}
    database = {"OPENBELL_DATABASE_URL": f"postgresql://openbell:{CANARY}@{nobody}/openbell"}
    alpaca = BROKERS["alpaca"].addresses
    swap = {"OPENBELL_BROKER_ADDRESSES": json.dumps({"alpaca": {Environment.LIVE: alpaca[Environment.PAPER]}})}
    return (
        Plant("weak secret", "settings", "cursor_secret", "openssl rand", {"OPENBELL_CURSOR_SECRET": "a" * 64}),
        Plant("crash point", "settings", "crash_point", "OPENBELL_CRASH_AT", {"OPENBELL_CRASH_AT": "api.after_accept"}),
        Plant(
            "live orders to a paper host", "settings", "broker_addresses", "OPENBELL_BROKER_ADDRESSES", swap, "executor"
        ),
        Plant("Redis away", "redis", "reachable", "OPENBELL_REDIS_URL", {"OPENBELL_REDIS_URL": f"redis://{nobody}"}),
        Plant("NATS away", "nats", "reachable", "OPENBELL_NATS_URL", {"OPENBELL_NATS_URL": f"nats://{nobody}"}),
        Plant("PostgreSQL away", "database", "reachable", "OPENBELL_DATABASE_URL", database),
        Plant("issuer away", "identity", "issuers", "OPENBELL_ISSUERS", {"OPENBELL_ISSUERS": issuers}),
        Plant("WorkOS away", "identity", "workos", "OPENBELL_WORKOS_API_KEY", workos),
    )


def _of_logins(platform: LocalPlatform) -> Sequence[Plant]:
    roles = ", ".join(LOGIN_ROLES["api"])
    asyncio.run(
        _own(
            platform.owner_url,
            "create role planted_bypass login bypassrls",
            "create role planted_lazy login",
            "alter role planted_lazy set synchronous_commit = off",
            "create role planted_operator login noinherit",
            f"grant {Role.OPERATOR} to planted_operator",
            "create role planted_vault login noinherit",
            f"grant {Role.VAULT} to planted_vault",
            "create role planted_stranger login",
            *(f"grant {roles} to planted_{name}" for name in ("bypass", "lazy", "operator", "vault")),
        )
    )

    def login(name: str) -> dict[str, str]:
        return {"OPENBELL_DATABASE_URL": platform.services.postgres.url("openbell", name)}

    return (
        Plant("superuser", "database", "login", "migrate --logins", login("openbell")),
        Plant("bypasses row security", "database", "login", "nobypassrls", login("planted_bypass")),
        Plant("operator role", "database", "roles", f"revoke {Role.OPERATOR}", login("planted_operator")),
        Plant("vault role", "database", "roles", f"revoke {Role.VAULT}", login("planted_vault")),
        Plant("executor without vault role", "database", "roles", Role.VAULT, login(f"{LOGINS}_api"), "executor"),
        Plant("no roles", "database", "roles", f"grant {Role.ACCEPT}", login("planted_stranger")),
        Plant("synchronous_commit off", "database", "synchronous_commit", "synchronous_commit", login("planted_lazy")),
    )


def _of_databases(platform: LocalPlatform, careless: LocalPostgres) -> Sequence[Plant]:
    asyncio.run(_own(platform.owner_url, "create database planted_behind"))
    behind = platform.services.postgres.url("planted_behind")
    migrate(behind, OLDEST)
    allow_logins(behind, logins_of(LOGINS))
    asyncio.run(_own(behind, "alter table openbell.orders no force row level security"))
    older = {"OPENBELL_DATABASE_URL": platform.services.postgres.url("planted_behind", f"{LOGINS}_api")}
    loses = {"OPENBELL_DATABASE_URL": careless.url()}
    return (
        Plant("schema behind", "database", "schema", "openbell-server migrate", older),
        Plant("row security not forced", "database", "row_security", "protect_tenant_table", older),
        Plant("fsync off", "database", "fsync", "fsync = on", loses),
        Plant("full_page_writes off", "database", "full_page_writes", "full_page_writes = on", loses),
    )


def _of_nats(url: str, monitor: str) -> Sequence[Plant]:
    asyncio.run(_spoil_stream(url))
    settings = {"OPENBELL_NATS_URL": url, "OPENBELL_NATS_MONITOR_URL": monitor}
    return (
        Plant("JetStream without sync", "nats", "sync_always", "sync_interval: always", settings),
        Plant("stream that forgets", "nats", "streams", "nats stream rm", settings),
    )


async def _spoil_stream(url: str) -> None:
    client = await nats.connect(url, connect_timeout=60)
    try:
        for stream in STREAMS.values():
            spoilt = StreamConfig(
                name=stream["name"], subjects=stream["subjects"], discard=DiscardPolicy.OLD, storage=StorageType.MEMORY
            )
            await client.jetstream().add_stream(spoilt)
    finally:
        await client.close()


def _of_vault(platform: LocalPlatform, folder: Path) -> Sequence[Plant]:
    private, public = folder / "private.json", folder / "public.json"
    create_key_files(private, public)
    asyncio.run(_seal_by(platform, public))
    missing = {"OPENBELL_VAULT_KEY": f"file:{folder}/nothing.json"}
    sealing = {"OPENBELL_VAULT_KEY": f"file:{private}"}
    opening = {"OPENBELL_VAULT_KEY": f"file:{public}"}
    key = "OPENBELL_VAULT_KEY"
    return (
        Plant("vault key unreadable", "vault", "seals", key, missing),
        Plant("private key where secrets are taken in", "vault", "seals", key, sealing),
        Plant("public key for an executor", "vault", "opens", key, opening, "executor"),
        Plant("sealed credentials and no key", "vault", "seals", key, {key: ""}),
        # The platform's own key is there, and an object was sealed by another.
        Plant("another key's object", "vault", "opens", "vault add-key", {}, "executor"),
    )


async def _seal_by(platform: LocalPlatform, public: Path) -> None:
    organization, account = platform.seeded.organization_id, platform.seeded.account_ids[0]
    place = SecretPlace(organization, account, uuid4(), 1)
    sealed = await EnvelopeSealer(KeyFile(public)).seal(place, Secrets({"key": CANARY}))
    await _own(
        platform.owner_url,
        "insert into openbell.vault_objects values"
        f" ('{organization}', '{account}', '{place.credential_id}', 1, '{sealed.key_id}',"
        f" '\\x{sealed.wrapped_key.hex()}', '\\x{sealed.sealed.hex()}')",
    )


def _of_work(platform: LocalPlatform) -> list[bool]:
    """What shows only in a platform that works no more."""
    asyncio.run(
        _own(
            platform.owner_url,
            "insert into openbell.outbox_failures"
            " (queue, outbox_id, organization_id, event_type, created_at, attempts, failed_at) values"
            f" ('users', 1, '{platform.seeded.organization_id}', 'user.deleted', now(), 10, now())",
        )
    )
    found = [_is_found(Plant("failed rows", "work", "queues", "outbox list --queue users"), _look(platform, "api"))]
    # Its end, not its death: it gives its slots back at once.
    platform.stack.stop("executor")
    return [*found, _is_found(Plant("no executor", "work", "executors", "executor"), _look(platform, "api"))]


def _of_clocks(platform: LocalPlatform) -> list[bool]:
    """On a machine whose clock nobody sets: the servers keep theirs."""
    with unittest.mock.patch("time.time", lambda real=time.time: real() + SHIFT_SECONDS):
        seen = _look(platform, "api")
    name = f"clock wrong by {SHIFT_SECONDS} s"
    return [_is_found(Plant(f"{name}, seen at {at}", at, "clock", "NTP"), seen) for at in ("database", "nats")]


@contextlib.contextmanager
def _bad_nats(folder: Path) -> Iterator[tuple[str, str]]:
    """One that confirms before it has written."""
    port, monitor = free_port(), free_port()
    config = folder / "nats.conf"
    config.write_text(
        f'listen: "127.0.0.1:{port}"\nhttp: "127.0.0.1:{monitor}"\n'
        f'jetstream {{ store_dir: "{folder}/store", max_file: 256M }}\n'
    )
    server = Child([find_nats(), "-c", config], log=folder / "nats.log")
    try:
        assert wait_until(lambda: "Server is ready" in (folder / "nats.log").read_text(), 60), server.log_tail()
        yield f"nats://127.0.0.1:{port}", f"http://127.0.0.1:{monitor}"
    finally:
        server.stop(5)


@contextlib.contextmanager
def _careless_postgres(folder: Path) -> Iterator[LocalPostgres]:
    home = Path(tempfile.mkdtemp(prefix="careless-", dir=folder.parent))
    home.chmod(0o711)
    server = LocalPostgres(home, free_port(), {"fsync": "off", "full_page_writes": "off"})
    try:
        server.start()
        yield server
    finally:
        server.stop()
        subprocess.run(["rm", "-r", home], check=True, timeout=60)


async def _own(url: str, *statements: str) -> None:
    """As the owner."""
    connection = await asyncpg.connect(url, timeout=60, command_timeout=60)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()
