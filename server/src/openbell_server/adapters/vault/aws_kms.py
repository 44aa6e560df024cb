"""A key-encryption key in AWS KMS: it never leaves KMS, and IAM decides who may wrap and unwrap."""

import base64
import threading
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from openbell_server.adapters.vault.envelope import Wrapped
from openbell_server.application.access.ports.vault import VaultError, VaultUnreachable

_ID: Final = "aws-kms:"
_BOUNDS: Final = Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 2, "mode": "standard"})
# KMS codes for an object that was changed, or that was wrapped by a missing key.
_NOT_UNWRAPPED: Final = frozenset(
    {"InvalidCiphertextException", "IncorrectKeyException", "NotFoundException", "ValidationException"}
)


class AwsKmsKey:
    """Implements KeyEncryptionKey. key is an ARN, or an id or alias in the configured region."""

    def __init__(self, key: str, endpoint: str = "") -> None:
        self._key = key
        self._endpoint = endpoint or None
        self._clients: dict[str, Any] = {}
        self._making = threading.Lock()
        self._client(key)

    def current_id(self) -> str:
        """The ARN that KMS reports, whatever form the settings use."""
        return self.wrap(b"which", b"").key_id

    def wrap(self, own_key: bytes, place: bytes) -> Wrapped:
        try:
            answer = self._client(self._key).encrypt(
                KeyId=self._key, Plaintext=own_key, EncryptionContext=_context(place)
            )
        except (BotoCoreError, ClientError) as error:
            raise _unreachable(error) from None
        return Wrapped(_ID + answer["KeyId"], answer["CiphertextBlob"])

    def unwrap(self, wrapped: Wrapped, place: bytes) -> bytes:
        """Decrypt with exactly the key that the object names."""
        key = wrapped.key_id.removeprefix(_ID)
        if key == wrapped.key_id or not key.startswith("arn:"):
            raise VaultError(
                "A vault object is wrapped by a key that is not in AWS KMS: check OPENBELL_VAULT_KEY, or put the"
                " credential again."
            )
        try:
            answer = self._client(key).decrypt(
                KeyId=key, CiphertextBlob=wrapped.wrapped_key, EncryptionContext=_context(place)
            )
        except ClientError as error:
            if _code(error) in _NOT_UNWRAPPED:
                raise VaultError(_refusal(_code(error))) from None
            raise _unreachable(error) from None
        except BotoCoreError as error:
            raise _unreachable(error) from None
        if answer["KeyId"] != key:
            raise VaultError(_refusal("another key"))
        unwrapped: bytes = answer["Plaintext"]
        return unwrapped

    def _client(self, key: str) -> Any:  # noqa: ANN401 - boto3 creates its clients at run time
        """A client for the ARN's region; an id or alias has none."""
        region = key.split(":")[3] if key.startswith("arn:") and key.count(":") >= 5 else ""
        # Creating a client is not thread-safe; using it is.
        with self._making:
            if region not in self._clients:
                try:
                    self._clients[region] = boto3.client(
                        "kms", region_name=region or None, endpoint_url=self._endpoint, config=_BOUNDS
                    )
                except (BotoCoreError, ValueError) as error:
                    raise VaultError(
                        f"AWS KMS cannot be used ({type(error).__name__}): name the key by its ARN in"
                        " OPENBELL_VAULT_KEY, or set AWS_REGION."
                    ) from None
            return self._clients[region]


def _context(place: bytes) -> dict[str, str]:
    return {"openbell": base64.b64encode(place).decode()}


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "no code"))


def _refusal(why: str) -> str:
    return (
        f"AWS KMS does not unwrap the key of a vault object ({why}): it was changed, or belongs to another place. Put"
        " the credential again."
    )


def _unreachable(error: Exception) -> VaultUnreachable:
    reason = _code(error) if isinstance(error, ClientError) else type(error).__name__
    return VaultUnreachable(
        f"AWS KMS did not answer as needed ({reason}): check the key in OPENBELL_VAULT_KEY, the credentials of this"
        " process and its rights to kms:Encrypt or kms:Decrypt, and that it reaches KMS."
    )
