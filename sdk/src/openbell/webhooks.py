"""Is a delivery of a webhook genuine? Standard Webhooks, with the secret that the webhook's creation told."""

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
    """The delivery was not signed with this secret, or too long ago: answer 400 and do nothing with it."""


def verify(secret: str, headers: Mapping[str, str], body: bytes, *, now: float | None = None) -> None:
    """Raise InvalidSignature unless the body came from whoever knows the secret, within five minutes.

    Give the body as it came, before anything reads it as JSON. While a secret is being replaced either one passes.
    """
    given = {name.lower(): value for name, value in headers.items()}
    try:
        message_id, timestamp = given["webhook-id"], given["webhook-timestamp"]
        signatures = given["webhook-signature"]
    except KeyError as missing:
        raise InvalidSignature(f"the header {missing.args[0]} is missing") from None
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < len("99999999999")):
        raise InvalidSignature("webhook-timestamp is no time in seconds")
    if abs((time.time() if now is None else now) - int(timestamp)) > TOLERANCE_SECONDS:
        raise InvalidSignature("webhook-timestamp is more than five minutes from now")
    signed = f"{message_id}.{timestamp}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.digest(_key(secret), signed, hashlib.sha256))
    # All of them, whichever fits: how long it takes tells nothing.
    fits = [hmac.compare_digest(expected, each.encode()) for each in signatures.split(" ")]
    if not any(fits):
        raise InvalidSignature("no signature fits the secret")


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("the secret must be as the webhook's creation told it: whsec_…") from None
