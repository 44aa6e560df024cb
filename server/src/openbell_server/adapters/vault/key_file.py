"""A key-encryption key in a file: a Tink keyset for HPKE, private to open, public to seal."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import tink
from tink import hybrid, json_proto_keyset_format, secret_key_access

from openbell_server.adapters.vault.envelope import Wrapped
from openbell_server.application.access.ports.vault import VaultError, VaultUnreachable

hybrid.register()
_TEMPLATE: Final = hybrid.hybrid_key_templates.DHKEM_X25519_HKDF_SHA256_HKDF_SHA256_AES_256_GCM
_TYPE: Final = "type.googleapis.com/google.crypto.tink.Hpke{}Key"
_ID: Final = "file:{:08x}"
# Tink's ciphertext prefix: one byte and the key id.
_PREFIX: Final = b"\x01"
_PREFIX_BYTES: Final = 5
_NOT_UNWRAPPED: Final = (
    "The key of a vault object cannot be unwrapped: it was changed, or belongs to another place, or the key file is"
    " another platform's. Check OPENBELL_VAULT_KEY, or put the credential again."
)


class KeyFile:
    """Implements KeyEncryptionKey; reads a changed file again. Raises VaultError if it is not a key file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp, self._keyset = _read(path)
        self.is_private = _is_private(self._keyset)

    def current_id(self) -> str:
        return _primary(self._latest())

    def wrap(self, own_key: bytes, place: bytes) -> Wrapped:
        keyset = self._latest()
        public = keyset.public_keyset_handle() if self.is_private else keyset
        return Wrapped(_primary(public), public.primitive(hybrid.HybridEncrypt).encrypt(own_key, place))

    def unwrap(self, wrapped: Wrapped, place: bytes) -> bytes:
        """Reads the file again if the key id is unknown, because the key may have been added."""
        if not self.is_private:
            raise VaultError("This process has a public key file, which seals and cannot open: only executors open.")
        if wrapped.key_id not in _key_ids(self._keyset):
            self._read_again()
        if wrapped.key_id not in _key_ids(self._keyset):
            raise VaultUnreachable(
                "A vault object is wrapped by a key that is not in the key file: give the executors the file that"
                " `openbell-server vault add-key` has written."
            )
        if wrapped.key_id != _named_in(wrapped.wrapped_key):
            raise VaultError(_NOT_UNWRAPPED)
        try:
            unwrapped: bytes = self._keyset.primitive(hybrid.HybridDecrypt).decrypt(wrapped.wrapped_key, place)
        except tink.TinkError:
            raise VaultError(_NOT_UNWRAPPED) from None
        return unwrapped

    def _latest(self) -> tink.KeysetHandle:
        if _stamp(self._path) != self._stamp:
            self._read_again()
        return self._keyset

    def _read_again(self) -> None:
        stamp, keyset = _read(self._path)
        if _is_private(keyset) != self.is_private:
            raise VaultError(f"The key file {self._path} was replaced by one of the other kind: put it back.")
        self._stamp, self._keyset = stamp, keyset


def create_key_files(private: Path, public: Path) -> str:
    """Create a key and return its id. Never overwrites a file, because objects may need its key."""
    for path in (private, public):
        if path.exists():
            raise VaultError(f"There is a file {path} already: choose another name, or use `vault add-key`.")
    keyset = tink.new_keyset_handle(_TEMPLATE)
    _write(private, _private_text(keyset))
    try:
        _write(public, _public_text(keyset))
    except VaultError:
        private.unlink()
        raise
    return _primary(keyset)


def add_key(private: Path, public: Path) -> str:
    """Add a key to both files, make it the primary one and return its id. Earlier keys still unwrap."""
    _, keyset = _read(private)
    if not _is_private(keyset):
        raise VaultError(f"{private} is a public key file: name the private one.")
    if _is_private(_read(public)[1]):
        raise VaultError(f"{public} is a private key file: name the public one.")
    # With two concurrent calls the later one would lose the earlier one's key.
    with _alone(private.parent):
        _, keyset = _read(private)
        extended = _extended(keyset)
        # In this order, so that every wrapping key can also unwrap.
        _replace(private, _private_text(extended))
        _replace(public, _public_text(extended))
    return _primary(extended)


def _extended(keyset: tink.KeysetHandle) -> tink.KeysetHandle:
    """Add a primary key; Tink's Python API has no call for it."""
    keys: list[dict[str, Any]] = json.loads(_private_text(keyset))["key"]
    added = json.loads(_private_text(tink.new_keyset_handle(_TEMPLATE)))["key"][0]
    while added["keyId"] in {each["keyId"] for each in keys}:
        added["keyId"] = int.from_bytes(os.urandom(4), "big") & 0x7FFFFFFF or 1
    text = json.dumps({"primaryKeyId": added["keyId"], "key": [*keys, added]})
    return json_proto_keyset_format.parse(text, secret_key_access.TOKEN)


def _private_text(keyset: tink.KeysetHandle) -> str:
    return str(json_proto_keyset_format.serialize(keyset, secret_key_access.TOKEN))


def _public_text(keyset: tink.KeysetHandle) -> str:
    return str(json_proto_keyset_format.serialize_without_secret(keyset.public_keyset_handle()))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_ino, facts.st_size


def _read(path: Path) -> tuple[tuple[int, int, int] | None, tink.KeysetHandle]:
    # The stamp first, so that a concurrent change causes another read.
    stamp = _stamp(path)
    try:
        keyset = json_proto_keyset_format.parse(path.read_text(), secret_key_access.TOKEN)
    except OSError as error:
        raise VaultUnreachable(
            f"The key file {path} cannot be read ({error.strerror}): check OPENBELL_VAULT_KEY."
        ) from None
    except (tink.TinkError, ValueError):
        keyset = None
    kinds = {each.type_url for each in keyset.keyset_info().key_info} if keyset else set()
    if keyset is None or kinds not in ({_TYPE.format("Private")}, {_TYPE.format("Public")}):
        raise VaultError(f"{path} is no key file of `openbell-server vault create-key`: check OPENBELL_VAULT_KEY.")
    return stamp, keyset


def _is_private(keyset: tink.KeysetHandle) -> bool:
    return all(each.type_url == _TYPE.format("Private") for each in keyset.keyset_info().key_info)


def _primary(keyset: tink.KeysetHandle) -> str:
    return _ID.format(keyset.keyset_info().primary_key_id)


def _key_ids(keyset: tink.KeysetHandle) -> set[str]:
    return {_ID.format(each.key_id) for each in keyset.keyset_info().key_info}


def _named_in(wrapped_key: bytes) -> str:
    prefix = wrapped_key[:_PREFIX_BYTES]
    return _ID.format(int.from_bytes(prefix[1:], "big")) if prefix[:1] == _PREFIX else ""


def _write(path: Path, text: str) -> None:
    """Create a file with mode 600 and sync it to disk before anything is sealed with it."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(path.parent)
    except OSError as error:
        raise VaultError(f"The key file {path} cannot be written ({error.strerror}).") from None


def _sync_folder(folder: Path) -> None:
    """Sync the directory, so that file names survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise VaultError(f"Another command is changing the keys in {folder}: wait until it has ended.") from None
    finally:
        os.close(descriptor)


def _replace(path: Path, text: str) -> None:
    """Replace atomically and keep the file mode."""
    draft = path.with_name(f".{path.name}.draft")
    draft.unlink(missing_ok=True)
    _write(draft, text)
    draft.chmod(path.stat().st_mode & 0o777)
    draft.replace(path)
    _sync_folder(path.parent)
