"""Verifies the signature of a webhook delivery, as Standard Webhooks defines it."""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping
from typing import Final

TOLERANCE_SECONDS: Final = 300
_PREFIX: Final = "whsec_"


class InvalidSignature(ValueError):
    """The delivery was not signed with this secret, or is too old: answer 400 and ignore it."""


def verify(secret: str, headers: Mapping[str, str], body: bytes, *, now: float | None = None) -> None:
    """Raise InvalidSignature unless the body was signed with the secret within the last five minutes.

    Pass the body as it was received, before it is parsed. After a rotation, either secret passes for 24 hours.
    """
    given = {name.lower(): value for name, value in headers.items()}
    try:
        message_id, timestamp = given["webhook-id"], given["webhook-timestamp"]
        signatures = given["webhook-signature"]
    except KeyError as missing:
        raise InvalidSignature(f"the header {missing.args[0]} is missing") from None
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < len("99999999999")):
        raise InvalidSignature("webhook-timestamp is not a time in seconds")
    if abs((time.time() if now is None else now) - int(timestamp)) > TOLERANCE_SECONDS:
        raise InvalidSignature("webhook-timestamp is more than five minutes from now")
    signed = f"{message_id}.{timestamp}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.digest(_key(secret), signed, hashlib.sha256))
    # Every signature is compared, so that the duration does not show which one matches.
    fits = [hmac.compare_digest(expected, each.encode()) for each in signatures.split(" ")]
    if not any(fits):
        raise InvalidSignature("no signature matches the secret")


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("the secret must be the one that the webhook's creation returned: whsec_…") from None
