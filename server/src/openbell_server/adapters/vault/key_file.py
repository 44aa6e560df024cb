"""A key-encryption key in a file: a Tink keyset for HPKE, private for those who open, public for those who seal."""

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
from openbell_server.application.ports.vault import VaultError, VaultUnreachable

hybrid.register()
_TEMPLATE: Final = hybrid.hybrid_key_templates.DHKEM_X25519_HKDF_SHA256_HKDF_SHA256_AES_256_GCM
_TYPE: Final = "type.googleapis.com/google.crypto.tink.Hpke{}Key"
_ID: Final = "file:{:08x}"
# What Tink writes before a ciphertext: one byte, and the id of the key.
_PREFIX: Final = b"\x01"
_PREFIX_BYTES: Final = 5
_NOT_UNWRAPPED: Final = (
    "The key of a vault object cannot be unwrapped: it was changed, or belongs to another place, or the key file is"
    " another platform's. Check OPENBELL_VAULT_KEY, or put the credential again."
)


class KeyFile:
    """Implements KeyEncryptionKey; a changed file is noticed without a restart."""

    def __init__(self, path: Path) -> None:
        """Read the file; raises VaultError if it is none of ours."""
        self._path = path
        self._stamp, self._keyset = _read(path)
        self.is_private = _is_private(self._keyset)

    def current_id(self) -> str:
        """The primary key of the file as it is now."""
        return _primary(self._latest())

    def wrap(self, own_key: bytes, place: bytes) -> Wrapped:
        """Wrap by the primary key of the file as it is now."""
        keyset = self._latest()
        public = keyset.public_keyset_handle() if self.is_private else keyset
        return Wrapped(_primary(public), public.primitive(hybrid.HybridEncrypt).encrypt(own_key, place))

    def unwrap(self, wrapped: Wrapped, place: bytes) -> bytes:
        """Unwrap by the key that wrapped it; one that is not known yet may have been added to the file."""
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
    """Make a key; its id. A file that is there is never written over: objects may need it."""
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
    """Add a key to both files and make it the one that wraps from now on; its id. The earlier ones still unwrap."""
    _, keyset = _read(private)
    if not _is_private(keyset):
        raise VaultError(f"{private} is a public key file: name the private one.")
    if _is_private(_read(public)[1]):
        raise VaultError(f"{public} is a private key file: name the public one.")
    # Of two at once the later one would throw away a key that the earlier one has given out.
    with _alone(private.parent):
        _, keyset = _read(private)
        extended = _extended(keyset)
        # In this order: whatever is wrapped by a key can be unwrapped.
        _replace(private, _private_text(extended))
        _replace(public, _public_text(extended))
    return _primary(extended)


def _extended(keyset: tink.KeysetHandle) -> tink.KeysetHandle:
    """With one more key, which is the primary one; Tink has no call for it in Python."""
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
    # The stamp first: a file that changes meanwhile is read again.
    stamp = _stamp(path)
    try:
        keyset = json_proto_keyset_format.parse(path.read_text(), secret_key_access.TOKEN)
    except OSError as error:
        said = f"The key file {path} cannot be read ({error.strerror}): check OPENBELL_VAULT_KEY."
        raise VaultUnreachable(said) from None
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
    """A new file that only its owner may read, on the disk before anything is sealed by it."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        _keep_names(path.parent)
    except OSError as error:
        raise VaultError(f"The key file {path} cannot be written ({error.strerror}).") from None


def _keep_names(folder: Path) -> None:
    """What its files are called survives a power failure."""
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
    """The whole new file or the old one, whatever happens; who may read it stays as it was."""
    draft = path.with_name(f".{path.name}.draft")
    draft.unlink(missing_ok=True)
    _write(draft, text)
    draft.chmod(path.stat().st_mode & 0o777)
    draft.replace(path)
    _keep_names(path.parent)
