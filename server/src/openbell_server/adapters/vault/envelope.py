"""Envelope encryption with Tink: each object has its own key, wrapped by a key-encryption key.

Both are bound to the secrets' place as associated data, so a moved or changed object does not open.
"""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final, ParamSpec, Protocol, TypeVar

import tink
from tink import aead, proto_keyset_format, secret_key_access

from openbell_server.application.access.ports.vault import VaultError
from openbell_server.domain.access.credentials import SealedSecrets, SecretPlace, Secrets

aead.register()
_OWN_KEY: Final = aead.aead_key_templates.AES256_GCM
_NOT_OPENED: Final = (
    "A vault object cannot be opened: it was changed, or sealed for another place. Put the credential again."
)
# Separate threads, so that a slow key service does not block DNS look-ups.
_THREADS: Final = ThreadPoolExecutor(16, "vault")
_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Wrapped:
    key_id: str
    wrapped_key: bytes


class KeyEncryptionKey(Protocol):
    """Wraps the keys of objects; calls may block for a limited time."""

    def current_id(self) -> str:
        """The id of the current wrapping key; raises VaultUnreachable."""

    def wrap(self, own_key: bytes, place: bytes) -> Wrapped:
        """Raises VaultUnreachable."""

    def unwrap(self, wrapped: Wrapped, place: bytes) -> bytes:
        """Raises VaultError if it was not wrapped for this place, or if the key is not available."""


@dataclass(frozen=True, slots=True)
class EnvelopeSealer:
    """Implements Sealer."""

    key: KeyEncryptionKey

    async def seal(self, place: SecretPlace, secrets: Secrets) -> SealedSecrets:
        return await _aside(self._seal, bytes(place), secrets)

    def _seal(self, place: bytes, secrets: Secrets) -> SealedSecrets:
        own_key = tink.new_keyset_handle(_OWN_KEY)
        wrapped = self.key.wrap(proto_keyset_format.serialize(own_key, secret_key_access.TOKEN), place)
        sealed = own_key.primitive(aead.Aead).encrypt(json.dumps(dict(secrets)).encode(), place)
        return SealedSecrets(wrapped.key_id, wrapped.wrapped_key, sealed)


@dataclass(frozen=True, slots=True)
class EnvelopeOpener:
    """Implements Opener."""

    key: KeyEncryptionKey

    async def open(self, place: SecretPlace, sealed: SealedSecrets) -> Secrets:
        return await _aside(self._open, bytes(place), sealed)

    def _open(self, place: bytes, sealed: SealedSecrets) -> Secrets:
        own_key = self.key.unwrap(Wrapped(sealed.key_id, sealed.wrapped_key), place)
        try:
            opened = proto_keyset_format.parse(own_key, secret_key_access.TOKEN).primitive(aead.Aead)
            return Secrets(json.loads(opened.decrypt(sealed.sealed, place)))
        except (tink.TinkError, ValueError):
            # The error text may contain plaintext.
            raise VaultError(_NOT_OPENED) from None


@dataclass(frozen=True, slots=True)
class EnvelopeRewrapper:
    """Implements Rewrapper."""

    key: KeyEncryptionKey

    async def current_key_id(self) -> str:
        return await _aside(self.key.current_id)

    async def rewrap(self, place: SecretPlace, sealed: SealedSecrets) -> SealedSecrets:
        return await _aside(self._rewrap, bytes(place), sealed)

    def _rewrap(self, place: bytes, sealed: SealedSecrets) -> SealedSecrets:
        wrapped = self.key.wrap(self.key.unwrap(Wrapped(sealed.key_id, sealed.wrapped_key), place), place)
        return SealedSecrets(wrapped.key_id, wrapped.wrapped_key, sealed.sealed)


async def _aside(call: Callable[_Given, _Answer], *given: _Given.args, **named: _Given.kwargs) -> _Answer:
    return await asyncio.get_running_loop().run_in_executor(_THREADS, partial(call, *given, **named))
