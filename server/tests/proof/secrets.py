"""Forty secrets go through a platform and are looked for wherever it writes; none is found, and every decoy is."""

import asyncio
import contextlib
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from urllib.parse import quote

import asyncpg
import redis

from openbell_server.adapters.postgres.connection import Role
from openbell_server.adapters.vault.envelope import EnvelopeOpener
from openbell_server.adapters.vault.key_file import KeyFile
from openbell_server.application.access.ports.vault import VaultError
from openbell_server.devtools.child_processes import free_port
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.devtools.local_services import LocalServices
from openbell_server.devtools.stack import LOGINS
from openbell_server.domain.access.credentials import SealedSecrets, SecretPlace
from openbell_server.processes.vault import FILE
from openbell_server.telemetry.logs import configure_logging
from proof import sinks as at
from proof.books import event_heads
from proof.canaries import Canaries, Search
from proof.decoys import Decoys, missed_spellings
from proof.figures import Figures
from proof.handling_secrets import ACCOUNTS, Handling
from proof.load import followers, until_followed
from proof.sinks import Sinks, collector, read_streams, taps
from support.environment.logins import EXECUTOR_LOGIN, PROCESSES, TEST_ROLES
from support.identity.loopback_issuers import LoopbackIssuers
from support.identity.workos_provider import workos

CANARIES = 40
CUT_EVERY = 50
SHOWN_MAX = 30
# Kept after the run, so that a finding can be traced.
KEPT = Path("build/proof/secrets-sinks")
# The files of the servers hold what was planted in them by their own ways.
ALSO_THERE = {at.FILES: (at.DATABASE, at.PAPER_DATABASE, at.STREAMS)}
SEALED = ("wrapped_key", "sealed")
OTHER_ROLES = TEST_ROLES


class GuardedServices(LocalServices):
    """With a password in the address of each."""

    def __init__(self, canaries: Canaries) -> None:
        super().__init__(with_redis=True)
        logins = {"openbell": "owner", **{f"{LOGINS}_{process}": process for process in PROCESSES}}
        self._passwords = {login: quote(canaries.text(f"password of {who}"), safe="") for login, who in logins.items()}
        self._nats_password = canaries.word("password of NATS")
        self._redis_password = canaries.word("password of Redis")

    def start(self) -> None:
        super().start()
        plain = self.postgres.url

        def url(database: str = "postgres", login: str = "openbell") -> str:
            return plain(database, login).replace("@", f":{self._passwords[login]}@")

        self.postgres.url = url  # type: ignore[method-assign]
        assert self.redis is not None
        for server, password in ((self.nats, self._nats_password), (self.redis, self._redis_password)):
            server.stop()
            server.password = password
            server.start()
        # Uncompressed, what it saves can be searched.
        with redis.Redis.from_url(self.redis.url, socket_timeout=60) as client:
            client.config_set("rdbcompression", "no")


def prove(figures: Figures) -> None:
    configure_logging("proof", "CRITICAL")
    shutil.rmtree(KEPT, ignore_errors=True)
    sinks, canaries, workos_port = Sinks(KEPT), Canaries(), free_port()
    with tempfile.TemporaryDirectory() as folder, LoopbackIssuers() as issuers, collector(sinks) as port:
        settings = {
            "OPENBELL_LOG_LEVEL": "DEBUG",
            "OPENBELL_ISSUERS": issuers.setting,
            "OPENBELL_CURSOR_SECRET": canaries.text("cursor secret"),
            "OPENBELL_PAPER_SECRET": canaries.word("secret of the paper broker"),
            "OPENBELL_WORKOS_API_KEY": canaries.word("key for WorkOS"),
            "OPENBELL_WORKOS_BASE_URL": f"http://127.0.0.1:{workos_port}",
            "OPENBELL_OTLP_URL": f"http://openbell:{canaries.word('password of the collector')}@127.0.0.1:{port}",
        }
        platform = LocalPlatform(KEPT / at.LOGS, settings, accounts=ACCOUNTS)
        platform.services = GuardedServices(canaries)
        with platform:
            decoys = Decoys(platform, sinks)
            operator = decoys.words[at.COMMANDS]
            handling = Handling(platform, sinks, canaries, Path(folder), figures.size == "full", operator)
            asyncio.run(_prove(figures, handling, decoys, workos_port))


async def _prove(figures: Figures, handling: Handling, decoys: Decoys, workos_port: int) -> None:
    platform, sinks = handling.platform, handling.sinks
    async with (
        taps(sinks, platform),
        workos(workos_port),
        followers(platform, CUT_EVERY) as following,
    ):
        await handling.run()
        await _who_may_open(figures, platform)
        await decoys.plant()
        await until_followed(following, await event_heads(platform))
    _show_handling(figures, handling)
    figures.at_least("events read from the stream", sinks.keep_events(following), 1)
    figures.at_least("messages read from JetStream", await read_streams(sinks, platform), 1)
    figures.at_least("tables dumped", await sinks.dump(platform), 20)
    # Nobody writes while the files are searched.
    platform.stack.stop_all()
    _search(figures, handling, decoys)


def _show_handling(figures: Figures, handling: Handling) -> None:
    for fault in handling.faults:
        print(f"not as expected: {fault}", flush=True)
    for what, count in sorted(handling.answers.items()):
        print(f"{count:4} {what}")
    figures.at_least("canaries planted", len(handling.canaries.parts), CANARIES)
    figures.shown("calls made", handling.calls)
    figures.exactly("calls and commands that ended otherwise than they should", len(handling.faults), 0)


def _search(figures: Figures, handling: Handling, decoys: Decoys) -> None:
    folder = handling.platform.services.folder
    places = {sink: [handling.sinks.folder / sink] for sink in (*at.SINKS, *at.DUMPS)}
    # The vault's own folder is where its keys belong, as passwords belong into the servers' configuration.
    own = {"vault", "wheel", "nats.conf", "redis.conf"}
    places[at.FILES] = [path for path in folder.iterdir() if path.name not in own]
    search = Search(handling.canaries, handling.folder / "canaries")
    control = Search(decoys.canaries, handling.folder / "decoys")
    figures.shown("spellings searched for", search.patterns)
    found: Counter[tuple[str, str]] = Counter()
    seen = 0
    for sink, paths in places.items():
        hits = search.hits(paths)
        found += hits
        figures.exactly(f"canaries in {sink}", len({name for name, _ in hits}), 0)
        unseen = {sink, *ALSO_THERE.get(sink, ())} - {name for name, _ in control.hits(paths)}
        if unseen:
            print(f"not found in {sink}: the decoys of {', '.join(unseen)}")
        seen += not unseen
    for (name, path), count in sorted(found.items())[:SHOWN_MAX]:
        print(f"LEAK  {name}: {count} in {path}", flush=True)
    figures.exactly("canaries found anywhere", len({name for name, _ in found}), 0)
    figures.exactly("sinks in which a decoy planted on purpose is found", seen, len(places))
    missed = missed_spellings(search, handling.canaries, handling.folder / "spellings")
    for line in missed[:SHOWN_MAX]:
        print(f"not recognized: {line}")
    figures.exactly("canaries not recognized in one of their spellings", len(missed), 0)


async def _who_may_open(figures: Figures, platform: LocalPlatform) -> None:
    """Only the logins of executor and back may read sealed secrets, in one role; only their key opens them."""
    postgres = platform.services.postgres
    others = [f"{LOGINS}_{process}" for process in PROCESSES if process not in {"executor", "back"}]
    taken = [await _is_let(postgres.url("openbell", login), Role.VAULT, "select 1") for login in others]
    figures.exactly("times that the login of the other processes may take the role of the vault", sum(taken), 0)
    tried = [
        await _is_let(postgres.url("openbell"), role, f"select {column} from openbell.vault_objects")
        for role in OTHER_ROLES
        for column in SEALED
    ]
    figures.shown("reads of sealed columns tried in other roles", len(tried))
    figures.exactly("reads of sealed columns that other roles are let", sum(tried), 0)
    let = await _is_let(
        postgres.url("openbell", EXECUTOR_LOGIN), Role.VAULT, "select sealed from openbell.vault_objects"
    )
    figures.exactly("the same read by the executors' login in the role of the vault", int(let), 1)
    connection = await asyncpg.connect(platform.owner_url, timeout=60)
    rows = await connection.fetch("select * from openbell.vault_objects")
    await connection.close()
    keys = {
        name: platform.stack.environment_of(name)["OPENBELL_VAULT_KEY"].removeprefix(FILE)
        for name in ("api", "executor")
    }
    opened: Counter[str] = Counter()
    for name, path in keys.items():
        opener = EnvelopeOpener(KeyFile(Path(path)))
        for row in rows:
            place = SecretPlace(row["organization_id"], row["account_id"], row["credential_id"], row["version"])
            with contextlib.suppress(VaultError):
                await opener.open(place, SealedSecrets(row["key_id"], row["wrapped_key"], row["sealed"]))
                opened[name] += 1
    figures.at_least("vault objects", len(rows), 1)
    figures.exactly("of them opened with the key file of the api", opened["api"], 0)
    figures.exactly("of them opened with the key file of the executors", opened["executor"], len(rows))


async def _is_let(url: str, role: Role, query: str) -> bool:
    """Whether a login may run a query in a role; the owner may take any."""
    connection = await asyncpg.connect(url, timeout=60)
    try:
        await connection.execute(f"set role {role}")
        await connection.fetch(query)
    except asyncpg.InsufficientPrivilegeError:
        return False
    finally:
        await connection.close()
    return True
