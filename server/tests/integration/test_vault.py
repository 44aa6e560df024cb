"""Sealed objects in the database: opened by executors alone, and wrapped anew while everything runs."""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from openbell_server.adapters.postgres.access.vault_objects import PostgresVaultObjects
from openbell_server.adapters.postgres.connection import UNAVAILABLE, Pool, Role, open_pool, transaction
from openbell_server.application.access.ports.vault import Rewrapped, VaultObjects, VaultUnreachable
from openbell_server.application.access.rotate_vault_keys import BATCH, RotateVault, Rotation
from openbell_server.devtools.local_services import LocalServices
from openbell_server.devtools.stack import LOGINS, platform_command
from openbell_server.domain.access.credentials import SealedSecrets, SecretPlace
from openbell_server.domain.identifiers import OrganizationId
from support.builders.sealed_objects import SECRETS, KeyFiles, keep_sealed
from support.builders.tenant import a_tenant
from support.environment.command_line import CommandLine
from support.environment.logins import API_LOGIN, EXECUTOR_LOGIN, PROCESSES, TEST_ROLES
from support.tenancy.statements import Owner


@pytest.fixture
def keys(tmp_path: Path) -> KeyFiles:
    return KeyFiles.create(tmp_path)


@pytest.fixture
def objects(executor_pool: Pool) -> PostgresVaultObjects:
    return PostgresVaultObjects(executor_pool, "olga")


async def rotate(objects: VaultObjects, keys: KeyFiles) -> Rotation:
    return await RotateVault(objects, keys.rewrapper, UNAVAILABLE).run(lambda _: None)


async def assert_all_open(objects: PostgresVaultObjects, keys: KeyFiles, places: Sequence[SecretPlace]) -> None:
    opener = keys.opener
    for place in places:
        sealed = await objects.read(place)
        assert sealed
        assert dict(await opener.open(place, sealed)) == dict(SECRETS)


async def test_what_the_api_keeps_an_executor_opens(
    login_pool: Pool, objects: PostgresVaultObjects, keys: KeyFiles
) -> None:
    places = await keep_sealed(login_pool, (await a_tenant(login_pool)).account, keys.sealer)
    await assert_all_open(objects, keys, places)
    assert await objects.read(replace(places[0], version=2)) is None


async def test_no_other_role_reads_what_is_sealed(pool: Pool, login_pool: Pool, keys: KeyFiles) -> None:
    account = (await a_tenant(login_pool)).account
    await keep_sealed(login_pool, account, keys.sealer)
    for role, column in itertools.product(TEST_ROLES, ("sealed", "wrapped_key", "key_id")):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied for table vault_objects"):
            async with transaction(pool, role, account.organization_id) as connection:
                await connection.fetch(f"select {column} from vault_objects")


@pytest.mark.parametrize(
    "statement", ["update vault_objects set sealed = '', version = 7", "delete from vault_objects"]
)
async def test_whoever_writes_objects_and_whoever_reads_them_neither_changes_nor_destroys_them(
    login_pool: Pool, executor_pool: Pool, keys: KeyFiles, statement: str
) -> None:
    account = (await a_tenant(login_pool)).account
    await keep_sealed(login_pool, account, keys.sealer)
    for pool, role in ((login_pool, Role.TENANT), (executor_pool, Role.VAULT)):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with transaction(pool, role, account.organization_id) as connection:
                await connection.execute(statement)


async def test_rotating_wraps_every_object_of_every_organization_by_the_current_key(
    login_pool: Pool, objects: PostgresVaultObjects, keys: KeyFiles, owner: Owner
) -> None:
    accounts = [(await a_tenant(login_pool)).account for _ in range(3)]
    places = [place for each in accounts for place in await keep_sealed(login_pool, each, keys.sealer, BATCH // 2)]
    before, old = [await objects.read(place) for place in places], keys.key_id
    new = keys.add_key()
    rotation = await rotate(objects, keys)
    assert (rotation.rewrapped, rotation.left, rotation.broken) == (len(places), 0, set())
    assert await objects.count_across_organizations() == {new: len(places)}
    after = [await objects.read(place) for place in places]
    assert [each and each.sealed for each in after] == [each and each.sealed for each in before]
    await assert_all_open(objects, keys, places)
    rows = await owner.fetch("select * from audit_log where operation = 'vault rotate'")
    assert {row["organization_id"] for row in rows} == {each.organization_id for each in accounts}
    assert {(row["principal_type"], row["principal_id"], row["before"]) for row in rows} == {
        ("OPERATOR", "olga", json.dumps({"key_ids": [old]}))
    }
    assert sum(json.loads(row["after"])["objects"] for row in rows) == len(places)


async def test_rotating_again_changes_nothing_and_is_not_audited(
    login_pool: Pool, objects: PostgresVaultObjects, keys: KeyFiles, owner: Owner
) -> None:
    (place,) = await keep_sealed(login_pool, (await a_tenant(login_pool)).account, keys.sealer)
    keys.add_key()
    assert (await rotate(objects, keys)).rewrapped == 1
    before = await objects.read(place)
    assert (await rotate(objects, keys)).rewrapped == 0
    assert await objects.read(place) == before
    assert await owner.fetchval("select count(*) from audit_log where operation = 'vault rotate'") == 1


class Meanwhile:
    """Something happens after objects were wrapped anew and before they are kept, once for each that is given."""

    def __init__(self, pool: Pool, *happens: Callable[[], Awaitable[None]]) -> None:
        self._objects, self._happens = PostgresVaultObjects(pool, "olga"), list(happens)
        self.count_across_organizations = self._objects.count_across_organizations
        self.list_wrapped_by_others_across_organizations = self._objects.list_wrapped_by_others_across_organizations

    async def save(self, organization_id: OrganizationId, rewrapped: Sequence[Rewrapped]) -> int:
        if self._happens:
            await self._happens.pop(0)()
        return await self._objects.save(organization_id, rewrapped)


async def test_an_object_that_was_destroyed_meanwhile_stays_destroyed(
    pool: Pool, login_pool: Pool, executor_pool: Pool, objects: PostgresVaultObjects, keys: KeyFiles
) -> None:
    gone, kept = await keep_sealed(login_pool, (await a_tenant(login_pool)).account, keys.sealer, 2)
    keys.add_key()

    async def destroy() -> None:
        async with transaction(pool, Role.RELAY) as connection:
            await connection.execute("delete from vault_objects where credential_id = $1", gone.credential_id)

    rotation = await rotate(Meanwhile(executor_pool, destroy), keys)
    assert (rotation.rewrapped, rotation.left) == (1, 0)
    assert await objects.read(gone) is None
    await assert_all_open(objects, keys, [kept])


async def test_what_another_rotation_wrapped_meanwhile_is_not_overwritten(
    login_pool: Pool, executor_pool: Pool, objects: PostgresVaultObjects, keys: KeyFiles, owner: Owner
) -> None:
    (place,) = await keep_sealed(login_pool, (await a_tenant(login_pool)).account, keys.sealer)
    keys.add_key()
    seen: list[SealedSecrets | None] = []

    async def rotate_too() -> None:
        await rotate(PostgresVaultObjects(executor_pool, "otto"), keys)
        seen.append(await objects.read(place))

    assert (await rotate(Meanwhile(executor_pool, rotate_too), keys)).rewrapped == 0
    assert [await objects.read(place)] == seen
    audited = await owner.fetch("select principal_id from audit_log where operation = 'vault rotate'")
    assert [row["principal_id"] for row in audited] == ["otto"]


async def test_a_rotation_that_was_cut_short_goes_on_where_it_was(
    login_pool: Pool, executor_pool: Pool, objects: PostgresVaultObjects, keys: KeyFiles
) -> None:
    accounts = [(await a_tenant(login_pool)).account for _ in range(2)]
    places = [place for each in accounts for place in await keep_sealed(login_pool, each, keys.sealer, 3)]
    keys.add_key()

    async def go_on() -> None:
        pass

    async def end() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await rotate(Meanwhile(executor_pool, go_on, end), keys)
    assert (await objects.count_across_organizations())[keys.key_id] == 3
    await assert_all_open(objects, keys, places)
    rotation = await rotate(objects, keys)
    assert (rotation.rewrapped, rotation.left) == (3, 0)
    await assert_all_open(objects, keys, places)


async def test_what_is_sealed_by_the_old_key_while_it_rotates_is_wrapped_by_the_next_pass(
    login_pool: Pool, executor_pool: Pool, objects: PostgresVaultObjects, keys: KeyFiles, tmp_path: Path
) -> None:
    account = (await a_tenant(login_pool)).account
    first = await keep_sealed(login_pool, account, keys.sealer)
    behind = replace(keys, public=tmp_path / "behind.json")
    behind.public.write_text(keys.public.read_text())
    keys.add_key()
    second: list[SecretPlace] = []

    async def seal_by_the_old_key() -> None:
        second.extend(await keep_sealed(login_pool, account, behind.sealer))

    rotation = await rotate(Meanwhile(executor_pool, seal_by_the_old_key), keys)
    assert (rotation.rewrapped, rotation.left) == (2, 0)
    await assert_all_open(objects, keys, [*first, *second])


async def test_an_object_that_cannot_be_unwrapped_is_named_and_holds_up_no_other(
    login_pool: Pool, objects: PostgresVaultObjects, keys: KeyFiles, owner: Owner
) -> None:
    account = (await a_tenant(login_pool)).account
    bad, good = await keep_sealed(login_pool, account, keys.sealer, 2)
    await owner.execute("update vault_objects set wrapped_key = 'x' where credential_id = $1", bad.credential_id)
    keys.add_key()
    rotation = await rotate(objects, keys)
    assert (rotation.rewrapped, rotation.left, rotation.broken) == (1, 1, {bad})
    await assert_all_open(objects, keys, [good])


class Away:
    """A key that stops answering after so many calls."""

    def __init__(self, keys: KeyFiles, calls: int) -> None:
        self._inner, self._calls = keys.rewrapper, calls

    async def current_key_id(self) -> str:
        self._calls -= 1
        if self._calls < 0:
            raise VaultUnreachable("away")
        return await self._inner.current_key_id()

    async def rewrap(self, place: SecretPlace, sealed: SealedSecrets) -> SealedSecrets:
        self._calls -= 1
        if self._calls < 0:
            raise VaultUnreachable("away")
        return await self._inner.rewrap(place, sealed)


async def test_a_key_that_stops_answering_ends_the_rotation_and_calls_no_object_broken(
    login_pool: Pool, objects: PostgresVaultObjects, keys: KeyFiles
) -> None:
    places = await keep_sealed(login_pool, (await a_tenant(login_pool)).account, keys.sealer, 3)
    keys.add_key()
    with pytest.raises(VaultUnreachable):
        await RotateVault(objects, Away(keys, 2), UNAVAILABLE).run(lambda _: None)
    await assert_all_open(objects, keys, places)


def commands(services: LocalServices, login: str, key: Path) -> CommandLine:
    return CommandLine(services.postgres.url("openbell_test", login), {"OPENBELL_VAULT_KEY": f"file:{key}"})


async def test_from_no_key_to_a_rotated_one_by_commands(
    services: LocalServices, login_pool: Pool, executor_pool: Pool, tmp_path: Path
) -> None:
    keys = KeyFiles(tmp_path / "private.json", tmp_path / "public.json")
    files = ("--private", str(keys.private), "--public", str(keys.public))
    command = commands(services, EXECUTOR_LOGIN, keys.private)
    old = (await command.read("vault", "create-key", *files))["key_id"]
    await keep_sealed(login_pool, (await a_tenant(login_pool)).account, keys.sealer, 2)
    assert await command.read("vault", "status") == {"keys": [{"key_id": old, "objects": 2, "current": True}]}
    new = (await command.read("vault", "add-key", *files))["key_id"]
    listed = {
        each["key_id"]: (each["objects"], each["current"]) for each in (await command.read("vault", "status"))["keys"]
    }
    assert listed == {old: (2, False), new: (0, True)}
    rotated = await command.run("vault", "rotate", "--as", "olga", "--json")
    assert json.loads(rotated.stdout) == {"key_id": new, "rewrapped": 2, "left": 0, "broken": []}
    assert "Wrapping keys" in rotated.stderr
    assert "2 objects" not in rotated.stdout
    assert await command.read("vault", "status") == {"keys": [{"key_id": new, "objects": 2, "current": True}]}
    assert "already" in await command.refused("vault", "create-key", *files)


async def test_a_command_says_which_login_and_which_key_it_needs(
    services: LocalServices, login_pool: Pool, keys: KeyFiles
) -> None:
    await login_pool.fetchval("select 1")
    for words in (("status",), ("rotate", "--as", "olga")):
        of_the_api = commands(services, API_LOGIN, keys.private)
        assert "use the executors' login" in await of_the_api.refused("vault", *words)
        assert "give it the private one" in await commands(services, API_LOGIN, keys.public).refused("vault", *words)
        assert "Set OPENBELL_VAULT_KEY" in await CommandLine(of_the_api.url).refused("vault", *words)


async def test_a_rotation_that_leaves_broken_objects_says_so_by_its_exit_code(
    services: LocalServices, login_pool: Pool, executor_pool: Pool, keys: KeyFiles, owner: Owner
) -> None:
    (place,) = await keep_sealed(login_pool, (await a_tenant(login_pool)).account, keys.sealer)
    await owner.execute("update vault_objects set wrapped_key = 'x'")
    keys.add_key()
    command = commands(services, EXECUTOR_LOGIN, keys.private)
    said = await command.run("vault", "rotate", "--as", "olga")
    assert said.exit_code == 1
    assert str(place.credential_id) in said.stderr


@pytest.mark.parametrize(
    ("process", "login", "kind", "says"),
    [
        ("api", API_LOGIN, "private", "give it the public one"),
        ("executor", EXECUTOR_LOGIN, "public", "give it the private one"),
    ],
)
async def test_a_process_with_the_key_file_of_another_does_not_start(
    services: LocalServices,
    login_pool: Pool,
    executor_pool: Pool,
    keys: KeyFiles,
    process: str,
    login: str,
    kind: str,
    says: str,
) -> None:
    await asyncio.gather(login_pool.fetchval("select 1"), executor_pool.fetchval("select 1"))
    environment = {
        "OPENBELL_DATABASE_URL": services.postgres.url("openbell_test", login),
        "OPENBELL_NATS_URL": services.nats.url,
        "OPENBELL_CURSOR_SECRET": "0123456789abcdef" * 2,
        "OPENBELL_VAULT_KEY": f"file:{getattr(keys, kind)}",
    }
    started = await asyncio.create_subprocess_exec(
        *platform_command(process), env=environment, stderr=asyncio.subprocess.PIPE
    )
    _, said = await asyncio.wait_for(started.communicate(), 60)
    assert (started.returncode, says in said.decode().splitlines()[-1]) == (2, True), said.decode()


async def test_every_process_gets_a_login_of_its_own_by_a_command(services: LocalServices, database: str) -> None:
    await CommandLine(database).say("migrate", "--logins", LOGINS)
    for process in PROCESSES:
        url = services.postgres.url("openbell_test", f"{LOGINS}_{process}")
        async with await open_pool(url, connections_max=1) as pool:
            may = await pool.fetchval("select pg_has_role($1, 'member')", Role.VAULT)
            assert may is (process in {"executor", "back"})
