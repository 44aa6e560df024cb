"""Secrets sealed by a key file: the public one seals, the private one opens, at the place they were sealed for."""

import asyncio
import fcntl
import json
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from openbell_server.adapters.vault.envelope import EnvelopeOpener
from openbell_server.adapters.vault.key_file import KeyFile, add_key, create_key_files
from openbell_server.application.access.ports.vault import VaultError, VaultUnreachable
from openbell_server.domain.access.credentials import SecretPlace
from openbell_server.domain.errors import OperatorError
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.processes.vault import opener, sealer
from openbell_server.settings import Settings
from support.builders.sealed_objects import SECRETS, KeyFiles

PLACE = SecretPlace(OrganizationId(uuid4()), AccountId(uuid4()), uuid4(), 1)
ELSEWHERE = [
    replace(PLACE, organization_id=OrganizationId(uuid4())),
    replace(PLACE, account_id=AccountId(uuid4())),
    replace(PLACE, credential_id=uuid4()),
    replace(PLACE, version=2),
]


@pytest.fixture
def files(tmp_path: Path) -> KeyFiles:
    return KeyFiles.create(tmp_path)


async def test_what_the_public_file_seals_the_private_file_opens(files: KeyFiles) -> None:
    sealed = await files.sealer.seal(PLACE, SECRETS)
    assert dict(await files.opener.open(PLACE, sealed)) == dict(SECRETS)
    assert sealed.key_id == files.key_id
    assert b"canary" not in sealed.sealed + sealed.wrapped_key


async def test_the_public_file_does_not_open_what_it_sealed(files: KeyFiles) -> None:
    sealed = await files.sealer.seal(PLACE, SECRETS)
    with pytest.raises(VaultError, match="cannot open"):
        await EnvelopeOpener(KeyFile(files.public)).open(PLACE, sealed)


@pytest.mark.parametrize("place", ELSEWHERE)
async def test_secrets_open_at_their_own_place_only(files: KeyFiles, place: SecretPlace) -> None:
    sealed = await files.sealer.seal(PLACE, SECRETS)
    with pytest.raises(VaultError):
        await files.opener.open(place, sealed)


async def test_every_object_has_a_key_of_its_own(files: KeyFiles) -> None:
    first, second = [await files.sealer.seal(PLACE, SECRETS) for _ in range(2)]
    for mixed in (replace(first, sealed=second.sealed), replace(first, wrapped_key=second.wrapped_key)):
        with pytest.raises(VaultError):
            await files.opener.open(PLACE, mixed)


async def test_another_platforms_key_does_not_open(files: KeyFiles, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = KeyFiles.create(tmp_path / "other")
    sealed = await files.sealer.seal(PLACE, SECRETS)
    with pytest.raises(VaultError):
        await other.opener.open(PLACE, replace(sealed, key_id=other.key_id))


async def test_an_object_that_names_another_key_of_the_file_does_not_open(files: KeyFiles) -> None:
    sealed = await files.sealer.seal(PLACE, SECRETS)
    added = files.add_key()
    with pytest.raises(VaultError, match="cannot be unwrapped"):
        await files.opener.open(PLACE, replace(sealed, key_id=added))


async def test_a_key_that_was_added_seals_and_opens_in_processes_that_run_and_the_earlier_one_still_opens(
    files: KeyFiles,
) -> None:
    running_sealer, running_opener = files.sealer, files.opener
    early = await running_sealer.seal(PLACE, SECRETS)
    first, added = files.key_id, files.add_key()
    late = await running_sealer.seal(PLACE, SECRETS)
    assert (early.key_id, late.key_id) == (first, added)
    for sealed in (early, late):
        assert dict(await running_opener.open(PLACE, sealed)) == dict(SECRETS)


async def test_a_key_that_nobody_has_is_named_as_such(files: KeyFiles) -> None:
    sealed = await files.sealer.seal(PLACE, SECRETS)
    with pytest.raises(VaultUnreachable, match="not in the key file"):
        await files.opener.open(PLACE, replace(sealed, key_id="file:00000000"))


def test_key_files_are_for_their_owner_only_also_after_a_key_was_added(files: KeyFiles) -> None:
    for _ in range(2):
        assert [stat.S_IMODE(path.stat().st_mode) for path in (files.private, files.public)] == [0o600, 0o600]
        add_key(files.private, files.public)
    assert sorted(path.name for path in files.private.parent.iterdir()) == ["private.json", "public.json"]


def test_a_key_file_is_never_written_over(files: KeyFiles, tmp_path: Path) -> None:
    kept = files.private.read_text()
    with pytest.raises(VaultError, match="already"):
        create_key_files(files.private, tmp_path / "new.json")
    with pytest.raises(VaultError, match="already"):
        create_key_files(tmp_path / "new.json", files.public)
    assert (files.private.read_text(), (tmp_path / "new.json").exists()) == (kept, False)


def test_the_public_file_holds_no_private_key(files: KeyFiles) -> None:
    private, public = (json.loads(path.read_text()) for path in (files.private, files.public))
    assert [key["keyData"]["keyMaterialType"] for key in public["key"]] == ["ASYMMETRIC_PUBLIC"]
    assert private["key"][0]["keyData"]["value"] not in files.public.read_text()


@pytest.mark.parametrize("names", [("public", "public"), ("private", "private")])
def test_a_key_is_added_to_a_pair_only(files: KeyFiles, names: tuple[str, str]) -> None:
    private, public = (getattr(files, name) for name in names)
    with pytest.raises(VaultError, match="name the"):
        add_key(private, public)


def settings(key: Any) -> Settings:
    return Settings(vault_key=str(key))


def test_without_a_key_there_is_no_vault() -> None:
    assert (sealer(settings("")), opener(settings(""))) == (None, None)


def test_whoever_takes_secrets_in_is_refused_the_private_file_and_an_executor_the_public_one(files: KeyFiles) -> None:
    with pytest.raises(OperatorError, match="give it the public one"):
        sealer(settings(f"file:{files.private}"))
    with pytest.raises(OperatorError, match="give it the private one"):
        opener(settings(f"file:{files.public}"))
    assert sealer(settings(f"file:{files.public}"))
    assert opener(settings(f"file:{files.private}"))


@pytest.mark.parametrize(
    ("text", "says"), [(None, "cannot be read"), ("", "no key file"), ("{}", "no key file"), ("s3cret", "no key file")]
)
def test_a_file_that_is_none_of_ours_is_said_in_a_sentence(tmp_path: Path, text: str | None, says: str) -> None:
    path = tmp_path / "key.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(OperatorError, match=says) as refused:
        opener(settings(f"file:{path}"))
    assert "s3cret" not in str(refused.value)


def test_a_key_of_no_known_kind_is_refused_without_repeating_it() -> None:
    with pytest.raises(OperatorError, match="must be file:") as refused:
        sealer(settings("s3cret"))
    assert "s3cret" not in str(refused.value)


async def test_no_error_says_anything_of_the_secrets(files: KeyFiles) -> None:
    sealed = await files.sealer.seal(PLACE, SECRETS)
    for wrong in (replace(sealed, sealed=b"canary"), replace(sealed, wrapped_key=b"canary")):
        with pytest.raises(VaultError) as refused:
            await files.opener.open(PLACE, wrong)
        assert "canary" not in str(refused.value)
        # What Tink said of the inside is not shown below it.
        assert refused.value.__context__ is None or refused.value.__suppress_context__


async def test_many_seal_and_open_at_once(files: KeyFiles) -> None:
    sealing, opening = files.sealer, files.opener

    async def there_and_back(number: int) -> bool:
        place = replace(PLACE, version=number)
        return dict(await opening.open(place, await sealing.seal(place, SECRETS))) == dict(SECRETS)

    assert all(await asyncio.gather(*map(there_and_back, range(1, 50))))


def test_a_wrapped_key_is_unwrapped_for_its_place_only(files: KeyFiles) -> None:
    key = KeyFile(files.private)
    wrapped = key.wrap(b"an object's own key", bytes(PLACE))
    assert key.unwrap(wrapped, bytes(PLACE)) == b"an object's own key"
    with pytest.raises(VaultError):
        key.unwrap(wrapped, bytes(ELSEWHERE[0]))


def test_a_key_of_which_half_could_not_be_written_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(VaultError, match="cannot be written"):
        create_key_files(tmp_path / "private.json", tmp_path / "nowhere" / "public.json")
    assert list(tmp_path.iterdir()) == []


def test_of_two_who_add_a_key_at_once_one_waits(files: KeyFiles) -> None:
    folder = os.open(files.private.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with pytest.raises(VaultError, match="wait until it has ended"):
            files.add_key()
    finally:
        os.close(folder)
    assert files.add_key() == files.key_id
