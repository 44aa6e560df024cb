"""Secrets sealed by a key in AWS KMS: bound to their place, opened by the key that wrapped them, and never for ever."""

from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import pytest

from openbell_server.adapters.vault.aws_kms import AwsKmsKey
from openbell_server.adapters.vault.envelope import EnvelopeOpener, EnvelopeRewrapper, EnvelopeSealer
from openbell_server.application.access.ports.vault import Opener, Sealer, VaultError, VaultUnreachable
from openbell_server.devtools.child_processes import free_port
from openbell_server.domain.access.credentials import SecretPlace, Secrets
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.processes.doctor.findings import Level, look_over, open_target
from openbell_server.processes.doctor.vault_checks import CHECKS
from openbell_server.processes.vault import opener, sealer
from openbell_server.settings import Settings
from support.identity.local_kms import LocalKms, local_kms

SECRETS = Secrets({"api_key": "AK-canary"})
PLACE = SecretPlace(OrganizationId(uuid4()), AccountId(uuid4()), uuid4(), 1)


@pytest.fixture(scope="module")
def kms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKms]:
    with local_kms(tmp_path_factory.mktemp("kms")) as running:
        yield running


def both(kms: LocalKms, key: str) -> tuple[Sealer, Opener]:
    settings = Settings(vault_key=f"aws-kms:{key}", vault_aws_endpoint=kms.endpoint)
    seals, opens = sealer(settings), opener(settings)
    assert seals
    assert opens
    return seals, opens


async def test_what_is_sealed_for_a_place_opens_there_and_nowhere_else(kms: LocalKms) -> None:
    key = kms.create_key()
    seals, opens = both(kms, key)
    sealed = await seals.seal(PLACE, SECRETS)
    assert dict(await opens.open(PLACE, sealed)) == dict(SECRETS)
    assert sealed.key_id == f"aws-kms:{key}"
    for place in (
        replace(PLACE, organization_id=OrganizationId(uuid4())),
        replace(PLACE, account_id=AccountId(uuid4())),
        replace(PLACE, credential_id=uuid4()),
        replace(PLACE, version=2),
    ):
        with pytest.raises(VaultError):
            await opens.open(place, sealed)


async def test_an_object_opens_by_the_key_it_names_and_by_no_other_name_of_it(kms: LocalKms) -> None:
    key, other = kms.create_key(), kms.create_key()
    seals, opens = both(kms, key)
    sealed = await seals.seal(PLACE, SECRETS)
    for wrong in (other, key.rpartition("/")[2], key[:-1], key.replace("eu-central-1", "eu-west-1"), "", "file:1"):
        with pytest.raises(VaultError):
            await opens.open(PLACE, replace(sealed, key_id=f"aws-kms:{wrong}"))
    with pytest.raises(VaultError, match="not in AWS KMS"):
        await opens.open(PLACE, replace(sealed, key_id=key))


async def test_an_object_is_rewrapped_from_one_key_to_another(kms: LocalKms) -> None:
    old, new = kms.create_key(), kms.create_key()
    sealed = await EnvelopeSealer(AwsKmsKey(old, kms.endpoint)).seal(PLACE, SECRETS)
    current = AwsKmsKey(new, kms.endpoint)
    rewrapped = await EnvelopeRewrapper(current).rewrap(PLACE, sealed)
    assert (rewrapped.key_id, rewrapped.sealed) == (f"aws-kms:{new}", sealed.sealed)
    for each in (sealed, rewrapped):
        assert dict(await EnvelopeOpener(current).open(PLACE, each)) == dict(SECRETS)


async def test_an_alias_is_known_by_the_key_it_stands_for(kms: LocalKms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    key = kms.create_key()
    kms.client.create_alias(AliasName="alias/openbell", TargetKeyId=key)
    by_alias = EnvelopeRewrapper(AwsKmsKey("alias/openbell", kms.endpoint))
    assert await by_alias.current_key_id() == f"aws-kms:{key}"


async def test_a_kms_that_is_not_there_is_said_in_a_sentence_within_a_bound(kms: LocalKms) -> None:
    key = kms.create_key()
    sealed = await both(kms, key)[0].seal(PLACE, SECRETS)
    away = AwsKmsKey(key, f"http://127.0.0.1:{free_port()}")
    for act in (EnvelopeSealer(away).seal(PLACE, SECRETS), EnvelopeOpener(away).open(PLACE, sealed)):
        with pytest.raises(VaultUnreachable, match="check the key in OPENBELL_VAULT_KEY") as said:
            await act
        assert "canary" not in str(said.value)


async def test_the_doctor_says_of_an_api_that_it_can_open_what_it_sealed(kms: LocalKms) -> None:
    settings = Settings(vault_key=f"aws-kms:{kms.create_key()}", vault_aws_endpoint=kms.endpoint)
    (check,) = [check for check in CHECKS if check.name == "seals"]
    async with open_target(settings, "api") as target:
        found = await look_over(target, [check])
    assert [(finding.level, "kms:Decrypt" in finding.fix) for finding in found] == [(Level.PROBLEM, True)]
