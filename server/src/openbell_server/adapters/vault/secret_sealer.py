"""Encrypts short texts with a key that is derived from a secret of the settings."""

import base64
import hashlib
import json
from typing import Final

import tink
from tink import aead, json_proto_keyset_format, secret_key_access

aead.register()
_TYPE: Final = "type.googleapis.com/google.crypto.tink.AesGcmKey"
# The start of a serialized AesGcmKey: field 3, 32 bytes.
_KEY_FIELD: Final = b"\x1a\x20"
_KEY_ID: Final = 1


class SecretSealer:
    """Implements the console's Sealer with AES-256-GCM; the purpose is associated data."""

    def __init__(self, secret: bytes, use: bytes) -> None:
        # The secret has 128 random bits or more, so one hash makes a key of it.
        key = hashlib.blake2b(use, key=hashlib.sha256(secret).digest(), digest_size=32).digest()
        described = {
            "typeUrl": _TYPE,
            "value": base64.b64encode(_KEY_FIELD + key).decode(),
            "keyMaterialType": "SYMMETRIC",
        }
        entry = {"keyData": described, "status": "ENABLED", "keyId": _KEY_ID, "outputPrefixType": "RAW"}
        text = json.dumps({"primaryKeyId": _KEY_ID, "key": [entry]})
        keyset = json_proto_keyset_format.parse(text, secret_key_access.TOKEN)
        self._aead: aead.Aead = keyset.primitive(aead.Aead)

    def seal(self, text: bytes, purpose: bytes) -> bytes:
        sealed: bytes = self._aead.encrypt(text, purpose)
        return sealed

    def open(self, sealed: bytes, purpose: bytes) -> bytes | None:
        try:
            opened: bytes = self._aead.decrypt(sealed, purpose)
        except tink.TinkError:
            return None
        return opened
