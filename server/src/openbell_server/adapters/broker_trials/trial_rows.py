"""Sign the row that one trial of a broker writes, and verify the signature of a row."""

import base64
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from openbell_server.application.broker_trials.subject import Measurement

_SIGNATURE: Final = "signature"


def signing_key(path: Path) -> Ed25519PrivateKey:
    """The key in the file; without a file a new one is made, which only its owner can read."""
    if path.exists():
        key = load_pem_private_key(path.read_bytes(), None)
        if not isinstance(key, Ed25519PrivateKey):
            raise ValueError("not an Ed25519 key")
        return key
    key = Ed25519PrivateKey.generate()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return key


def signed_row(
    key: Ed25519PrivateKey,
    *,
    broker: str,
    is_sandbox: bool,
    version: str,
    at: datetime,
    measurements: Sequence[Measurement],
) -> dict[str, Any]:
    """A row is of the broker's own sandbox, or of a simulator that somebody runs."""
    row: dict[str, Any] = {
        "broker": broker,
        "of": "sandbox" if is_sandbox else "simulator",
        "version": version,
        "measured_at": at.isoformat(timespec="seconds"),
        "measurements": [{**asdict(each), "agrees": each.agrees} for each in measurements],
        "public_key": _text(key.public_key().public_bytes_raw()),
    }
    return {**row, _SIGNATURE: _text(key.sign(_canonical(row)))}


def is_signed(row: dict[str, Any]) -> bool:
    """Whether the row is as the holder of its key signed it."""
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(row["public_key"], validate=True))
        signature = base64.b64decode(row[_SIGNATURE], validate=True)
        key.verify(signature, _canonical({name: value for name, value in row.items() if name != _SIGNATURE}))
    except (KeyError, TypeError, ValueError, InvalidSignature):
        return False
    return True


def _canonical(row: dict[str, Any]) -> bytes:
    return json.dumps(row, sort_keys=True, separators=(",", ":")).encode()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
