"""A key-encryption key in AWS KMS: it never leaves it, and IAM says who may wrap and who may unwrap."""

import base64
import threading
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from openbell_server.adapters.vault.envelope import Wrapped
from openbell_server.application.ports.vault import VaultError, VaultUnreachable

_ID: Final = "aws-kms:"
_BOUNDS: Final = Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 2, "mode": "standard"})
# Its word that the object is not what it was, or was wrapped by a key that is not there.
_NOT_UNWRAPPED: Final = frozenset(
    {"InvalidCiphertextException", "IncorrectKeyException", "NotFoundException", "ValidationException"}
)


class AwsKmsKey:
    """Implements KeyEncryptionKey; each object says which key of KMS wraps it."""

    def __init__(self, key: str, endpoint: str = "") -> None:
        """The key by its ARN, or by an id or alias in the region of the environment."""
        self._key = key
        self._endpoint = endpoint or None
        self._clients: dict[str, Any] = {}
        self._making = threading.Lock()
        self._client(key)

    def current_id(self) -> str:
        """As KMS calls it, whatever the settings call it."""
        return self.wrap(b"which", b"").key_id

    def wrap(self, own_key: bytes, place: bytes) -> Wrapped:
        """Encrypt for the place."""
        try:
            answer = self._client(self._key).encrypt(
                KeyId=self._key, Plaintext=own_key, EncryptionContext=_context(place)
            )
        except (BotoCoreError, ClientError) as error:
            raise _unreachable(error) from None
        return Wrapped(_ID + answer["KeyId"], answer["CiphertextBlob"])

    def unwrap(self, wrapped: Wrapped, place: bytes) -> bytes:
        """Decrypt by the very key that the object names."""
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

    def _client(self, key: str) -> Any:  # noqa: ANN401 - boto3 makes its clients at run time
        """For the region that the ARN names; an id or an alias names none."""
        region = key.split(":")[3] if key.startswith("arn:") and key.count(":") >= 5 else ""
        # Making one is not for several threads at once; using it is.
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
    said = _code(error) if isinstance(error, ClientError) else type(error).__name__
    return VaultUnreachable(
        f"AWS KMS did not answer as needed ({said}): check the key in OPENBELL_VAULT_KEY, the credentials of this"
        " process and its rights to kms:Encrypt or kms:Decrypt, and that it reaches KMS."
    )
