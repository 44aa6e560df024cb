"""Values for the statements of the console's sessions."""

from typing import Any


def values_of_console() -> dict[str, Any]:
    """Of a session that is not there; its user has none either."""
    return {
        "session_hash": bytes(32),
        "session_hashes": [bytes(32)],
        "issuer": "https://login.example.com",
        "sealed_tokens": b"sealed",
        "refreshes": 0,
        "others_max": 10,
        **dict.fromkeys(("token_seconds", "session_seconds", "idle_seconds", "claim_seconds"), 3600.0),
    }
