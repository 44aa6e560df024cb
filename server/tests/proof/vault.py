"""The vault's key is changed under load, and nothing fails to open; what was tampered with never opens."""

import asyncio
import json
import signal
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Protocol
from uuid import uuid4

import asyncpg

from openbell_server.adapters.postgres.access.vault_objects import PostgresVaultObjects, add_vault_object
from openbell_server.adapters.postgres.connection import Pool, Role, open_pool, transaction
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.adapters.vault.aws_kms import AwsKmsKey
from openbell_server.adapters.vault.envelope import EnvelopeOpener, EnvelopeSealer
from openbell_server.adapters.vault.key_file import KeyFile
from openbell_server.application.access.ports.vault import Opener, Sealer, VaultError
from openbell_server.devtools.background_services import create_databases
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.access.credentials import SealedSecrets, SecretPlace, Secrets
from proof.figures import Figures
from proof.tampering import KINDS, tamper
from support.brokers.paper_broker import until
from support.builders.sealed_objects import KeyFiles
from support.builders.tenant import a_tenant, an_account
from support.environment.logins import EXECUTOR_LOGIN, TEST_LOGIN, allow_every_login
from support.identity.local_kms import LocalKms, local_kms
from support.tenancy.statements import Owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many objects of each key are rotated, and how many are tampered with."""

    objects: int
    tampered: int
    kms_objects: int
    kms_tampered: int


SIZES = {
    "full": Size(objects=5000, tampered=1000, kms_objects=200, kms_tampered=100),
    "gate": Size(objects=120, tampered=64, kms_objects=12, kms_tampered=16),
}
ORGANIZATIONS = 3
ACCOUNTS = 2
READERS = 4
READ_SECONDS = 0.005
WRITERS = 2
WRITE_SECONDS = 0.02
# So many of the objects are replaced meanwhile; the others are for the rotation to wrap.
WRITTEN_MAX = 0.25
# The first rotation is killed when so many are wrapped by the new key, and another one is run.
KILLED_AT = 0.3
ROTATE_SECONDS = 300
SENTENCES_MAX = 5
COMMAND = (sys.executable, "-m", "openbell_server", "vault", "rotate", "--as", "proof", "--json")


class Keys(Protocol):
    """A key-encryption key as the processes have it."""

    sealer: Sealer
    opener: Opener
    environment: dict[str, str]

    def change(self) -> str:
        """A new key wraps from now on; its id."""


class FileKeys:
    """Processes that began with the first key, and are not restarted."""

    def __init__(self, folder: Path) -> None:
        self._files = KeyFiles.create(folder)
        self.sealer: Sealer = self._files.sealer
        self.opener: Opener = self._files.opener
        self.environment = {"OPENBELL_VAULT_KEY": f"file:{self._files.private}"}
        self.public_opener = EnvelopeOpener(KeyFile(self._files.public))

    def change(self) -> str:
        return self._files.add_key()


class KmsKeys:
    """The api is restarted with a new key; executors open by whichever key an object names."""

    sealer: Sealer

    def __init__(self, kms: LocalKms) -> None:
        self._kms = kms
        self.environment = {"OPENBELL_VAULT_AWS_ENDPOINT": kms.endpoint, **kms.environment}
        self._use(kms.create_key())
        self.opener: Opener = EnvelopeOpener(self._key)

    def change(self) -> str:
        return self._use(self._kms.create_key())

    def _use(self, arn: str) -> str:
        self._key = AwsKmsKey(arn, self._kms.endpoint)
        self.sealer = EnvelopeSealer(self._key)
        self.environment["OPENBELL_VAULT_KEY"] = f"aws-kms:{arn}"
        return f"aws-kms:{arn}"


def secrets_of(place: SecretPlace) -> Secrets:
    """Different everywhere, so that what opens in the wrong place shows."""
    return Secrets({"api_key": bytes(place).hex()})


@dataclass
class World:
    """The database as the api, the relay and an executor use it, and what ought to be in it."""

    owner: Owner
    app: Pool
    objects: PostgresVaultObjects
    accounts: Sequence[TradingAccount]
    random: Random = field(default_factory=lambda: Random(17))
    live: list[SecretPlace] = field(default_factory=list)
    gone: set[SecretPlace] = field(default_factory=set)

    async def put(self, places: Sequence[SecretPlace], sealer: Sealer) -> None:
        sealed = [await sealer.seal(place, secrets_of(place)) for place in places]
        async with transaction(self.app, Role.TENANT, places[0].organization_id) as connection:
            for place, each in zip(places, sealed, strict=True):
                await add_vault_object(connection, place, each)
        self.live.extend(places)

    async def destroy(self, place: SecretPlace) -> None:
        """As the relay does with what no credential needs."""
        self.gone.add(place)
        async with transaction(self.app, Role.RELAY) as connection:
            await connection.execute(
                "delete from vault_objects where credential_id = $1 and version = $2",
                place.credential_id,
                place.version,
            )

    async def fill(self, count: int, sealer: Sealer) -> None:
        await self.owner.execute("delete from vault_objects")
        self.live, self.gone = [], set()
        share = -(-count // len(self.accounts))
        for account in self.accounts:
            places = [SecretPlace(account.organization_id, account.id, uuid4(), 1) for _ in range(share)]
            await self.put(places, sealer)


def prove(figures: Figures) -> None:
    size = SIZES[figures.size]
    with tempfile.TemporaryDirectory() as folder, LocalServices() as services:
        create_databases(services.postgres.url())
        owner_url = services.postgres.url("openbell")
        migrate(owner_url)
        allow_every_login(owner_url)
        with local_kms(Path(folder)) as kms:
            asyncio.run(_prove(figures, services, size, Path(folder), kms))


async def _prove(figures: Figures, services: LocalServices, size: Size, folder: Path, kms: LocalKms) -> None:
    urls = [services.postgres.url("openbell", login) for login in (TEST_LOGIN, EXECUTOR_LOGIN)]
    owner = await asyncpg.connect(
        services.postgres.url("openbell"), timeout=60, server_settings={"search_path": "openbell, pg_catalog"}
    )
    try:
        async with await open_pool(urls[0]) as app, await open_pool(urls[1]) as executor:
            world = World(owner, app, PostgresVaultObjects(executor), await _accounts(app))
            file_keys = FileKeys(folder)
            await _rotate(figures, world, file_keys, size.objects, "key file", urls[1], kills=True)
            await _only_executors(figures, world, file_keys)
            await _tamper(figures, world, file_keys, size.tampered, "key file")
            kms_keys = KmsKeys(kms)
            await _rotate(figures, world, kms_keys, size.kms_objects, "AWS KMS", urls[1])
            await _tamper(figures, world, kms_keys, size.kms_tampered, "AWS KMS")
    finally:
        await owner.close()


async def _accounts(pool: Pool) -> list[TradingAccount]:
    accounts = []
    for _ in range(ORGANIZATIONS):
        first = (await a_tenant(pool)).account
        accounts += [first, *[await an_account(pool, first.organization_id) for _ in range(ACCOUNTS - 1)]]
    return accounts


@dataclass
class Load:
    """Executors that open objects and apis that put new versions, for as long as it rotates."""

    world: World
    keys: Keys
    writes_max: int
    over: asyncio.Event = field(default_factory=asyncio.Event)
    reads: int = 0
    failed: list[str] = field(default_factory=list)
    written: int = 0

    async def read(self) -> None:
        while not self.over.is_set():
            place = self.world.random.choice(self.world.live)
            try:
                sealed = await self.world.objects.read(place)
                # One that was destroyed since it was chosen is no longer there, and may be.
                if sealed is not None or place not in self.world.gone:
                    assert sealed is not None, "it is not there"
                    assert await self.keys.opener.open(place, sealed) == secrets_of(place), "it is another's"
                    self.reads += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, an executor could not sign in
                self.failed.append(f"{type(error).__name__}: {error}")
            await asyncio.sleep(READ_SECONDS)

    async def write(self) -> None:
        """A new version in the place of the last one; sometimes a credential is removed and another one put."""
        while self.written < self.writes_max and not self.over.is_set():
            self.written += 1
            old = self.world.random.choice(self.world.live)
            self.world.live.remove(old)
            new = replace(old, version=old.version + 1)
            if self.world.random.random() < 0.3:
                new = replace(old, credential_id=uuid4(), version=1)
            await self.world.put([new], self.keys.sealer)
            await self.world.destroy(old)
            await asyncio.sleep(WRITE_SECONDS)


async def _rotate(
    figures: Figures, world: World, keys: Keys, count: int, name: str, url: str, *, kills: bool = False
) -> None:
    await world.fill(count, keys.sealer)
    old = set(await world.objects.count_across_organizations())
    figures.at_least(f"{name}: objects wrapped by the old key", len(world.live), count)
    load = Load(world, keys, int(count * WRITTEN_MAX))
    key_id = keys.change()
    begun = time.monotonic()
    tasks = [asyncio.create_task(load.read()) for _ in range(READERS)]
    tasks += [asyncio.create_task(load.write()) for _ in range(WRITERS)]
    environment = {"OPENBELL_DATABASE_URL": url, **keys.environment}
    if kills:
        killed = await _killed_midway(world, environment, key_id, count)
        figures.exactly(f"{name}: rotations killed midway", killed, 1)
    rotating = await asyncio.create_subprocess_exec(*COMMAND, env=environment, stdout=PIPE, stderr=PIPE)
    said, progress = await asyncio.wait_for(rotating.communicate(), ROTATE_SECONDS)
    assert rotating.returncode == 0, progress.decode()
    seconds = time.monotonic() - begun
    load.over.set()
    await asyncio.gather(*tasks)
    counts = await world.objects.count_across_organizations()
    figures.at_least(f"{name}: objects wrapped by the rotation that ended", json.loads(said)["rewrapped"], 1)
    figures.exactly(f"{name}: objects left on the old key", sum(counts.get(each, 0) for each in old), 0)
    figures.shown(f"{name}: objects opened meanwhile", load.reads)
    figures.exactly(f"{name}: failed reads", len(load.failed), 0)
    figures.shown(f"{name}: versions written meanwhile", load.written)
    figures.shown(f"{name}: objects destroyed meanwhile", len(world.gone))
    figures.exactly(f"{name}: destroyed objects that came back", await _count(world, world.gone), 0)
    figures.exactly(f"{name}: objects lost", len(world.live) - await _count(world, world.live), 0)
    figures.exactly(f"{name}: objects that do not open afterwards", await _count_closed(world, keys), 0)
    figures.shown(f"{name}: seconds of rotation", round(seconds, 1))
    for sentence in load.failed[:SENTENCES_MAX]:
        print(sentence, flush=True)


async def _killed_midway(world: World, environment: dict[str, str], key_id: str, count: int) -> int:
    """Begin one, hold on to an object in the middle of its way, and kill it when it has come so far."""
    held = sorted(world.live, key=bytes)[count // 2]
    world.live.remove(held)
    async with world.owner.transaction():
        await world.owner.execute(
            "select 1 from vault_objects where credential_id = $1 and version = $2 for update",
            held.credential_id,
            held.version,
        )
        rotating = await asyncio.create_subprocess_exec(*COMMAND, env=environment, stdout=DEVNULL, stderr=DEVNULL)

        async def some_are_wrapped() -> bool:
            return (await world.objects.count_across_organizations()).get(key_id, 0) >= count * KILLED_AT

        try:
            await until(some_are_wrapped, ROTATE_SECONDS)
        finally:
            rotating.kill()
        killed = await rotating.wait() == -signal.SIGKILL
    world.live.append(held)
    return int(killed)


async def _count(world: World, places: Sequence[SecretPlace] | set[SecretPlace]) -> int:
    return sum([await world.objects.read(place) is not None for place in list(places)])


async def _count_closed(world: World, keys: Keys) -> int:
    closed = 0
    for place in world.live:
        sealed = await world.objects.read(place)
        closed += sealed is None or await keys.opener.open(place, sealed) != secrets_of(place)
    return closed


async def _only_executors(figures: Figures, world: World, keys: FileKeys) -> None:
    """What the others' login and key get out of it."""
    taken = read = 0
    for role in Role:
        for column in ("sealed", "wrapped_key", "key_id"):
            organization_id = world.live[0].organization_id
            try:
                async with transaction(world.app, role, organization_id) as connection:
                    taken += role is Role.VAULT
                    read += len(await connection.fetch(f"select {column} from vault_objects"))
            except asyncpg.InsufficientPrivilegeError:
                pass
    figures.exactly("times the login of the other processes took the vault's role", taken, 0)
    figures.exactly("sealed objects that it read in any role", read, 0)
    opened = 0
    for place in world.live[:100]:
        sealed = await world.objects.read(place)
        assert sealed is not None
        opened += await _opens(keys.public_opener, place, sealed)
    figures.exactly("objects that the public key opened", opened, 0)


async def _opens(opener: Opener, place: SecretPlace, sealed: SealedSecrets) -> bool:
    try:
        await opener.open(place, sealed)
    except VaultError:
        return False
    return True


async def _tamper(figures: Figures, world: World, keys: Keys, count: int, name: str) -> None:
    """Each is changed in the database, and then opened as an executor opens it."""
    # Neighbours of every sort: other organizations, accounts and credentials, and versions of one credential.
    await world.fill(count // 2, keys.sealer)
    for place in list(world.live):
        await world.put([replace(place, version=2)], keys.sealer)
    places = world.live[:]
    figures.exactly(
        f"{name}: objects that do not open before they are tampered with", await _count_closed(world, keys), 0
    )
    sealed = {place: await world.objects.read(place) for place in places}
    objects = {place: each for place, each in sealed.items() if each is not None}
    other_key = keys.change()
    accepted: list[str] = []
    tried = 0
    for number, place in enumerate(places[:count]):
        kind = KINDS[number % len(KINDS)]
        changed = tamper(kind, world.random, place, objects, other_key)
        await world.owner.execute(
            "update vault_objects set key_id = $1, wrapped_key = $2, sealed = $3"
            " where credential_id = $4 and version = $5",
            *(changed.key_id, changed.wrapped_key, changed.sealed, place.credential_id, place.version),
        )
        read = await world.objects.read(place)
        assert read == changed != objects[place], kind
        tried += 1
        if await _opens(keys.opener, place, read):
            accepted.append(kind)
    figures.exactly(f"{name}: tampered objects tried", tried, count)
    figures.shown(f"{name}: kinds of tampering", len(KINDS))
    figures.exactly(f"{name}: tampered objects accepted", len(accepted), 0)
    for kind in accepted[:SENTENCES_MAX]:
        print(kind, flush=True)
