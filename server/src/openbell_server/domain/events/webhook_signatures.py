"""Signatures of webhook deliveries: Standard Webhooks, with symmetric keys."""

import base64
import hashlib
import hmac
from collections.abc import Sequence


def signed_headers(message_id: str, timestamp: int, body: bytes, keys: Sequence[bytes]) -> dict[str, str]:
    """The headers of one attempt; all of `keys` sign, so that a replaced key stays valid for a while."""
    content = f"{message_id}.{timestamp}.".encode() + body
    signatures = (base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode() for key in keys)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }
