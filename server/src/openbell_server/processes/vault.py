"""Builds the vault of the setting `vault_key`: the api only seals, executors open."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from openbell_server.application.access.ports.vault import Opener, Rewrapper, Sealer, VaultError
from openbell_server.domain.errors import OperatorError
from openbell_server.settings import Settings

if TYPE_CHECKING:
    from openbell_server.adapters.vault.envelope import KeyEncryptionKey

FILE: Final = "file:"
AWS_KMS: Final = "aws-kms:"
# Tink is slow to import and not every process has a vault, so the imports are local.


def sealer(settings: Settings) -> Sealer | None:
    """None if no key is configured."""
    if not settings.vault_key:
        return None
    from openbell_server.adapters.vault.envelope import EnvelopeSealer

    return EnvelopeSealer(_key(settings, opens=False))


def opener(settings: Settings) -> Opener | None:
    """None if no key is configured."""
    if not settings.vault_key:
        return None
    from openbell_server.adapters.vault.envelope import EnvelopeOpener

    return EnvelopeOpener(_key(settings, opens=True))


def rewrapper(settings: Settings) -> Rewrapper:
    settings.require("vault_key")
    from openbell_server.adapters.vault.envelope import EnvelopeRewrapper

    return EnvelopeRewrapper(_key(settings, opens=True))


def _key(settings: Settings, *, opens: bool) -> "KeyEncryptionKey":
    if settings.vault_key.startswith(AWS_KMS):
        return _kms_key(settings.vault_key.removeprefix(AWS_KMS), settings.vault_aws_endpoint)
    if settings.vault_key.startswith(FILE):
        return _key_file(Path(settings.vault_key.removeprefix(FILE)), opens=opens)
    raise OperatorError("OPENBELL_VAULT_KEY must be file:<path> or aws-kms:<key>.")


def _kms_key(key: str, endpoint: str) -> "KeyEncryptionKey":
    # IAM decides who may open; this is only known after a try.
    try:
        from openbell_server.adapters.vault.aws_kms import AwsKmsKey
    except ImportError as error:
        raise OperatorError("OPENBELL_VAULT_KEY names AWS KMS: install openbell-server[aws].") from error
    try:
        return AwsKmsKey(key, endpoint)
    except VaultError as error:
        raise OperatorError(str(error)) from None


def _key_file(path: Path, *, opens: bool) -> "KeyEncryptionKey":
    from openbell_server.adapters.vault.key_file import KeyFile

    try:
        key = KeyFile(path)
    except VaultError as error:
        raise OperatorError(str(error)) from None
    if key.is_private and not opens:
        raise OperatorError(
            "OPENBELL_VAULT_KEY of this process names a private key file: give it the public one, which seals and"
            " cannot open. Only executors hold the private one."
        )
    if opens and not key.is_private:
        raise OperatorError(
            "OPENBELL_VAULT_KEY of this process names a public key file, which cannot open: give it the private one."
        )
    return key
