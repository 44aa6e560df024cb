"""The console's two cookies. Both are sent to this host only, over TLS only, and no script can read them."""

import base64
import binascii
from typing import Final

from openbell_server.domain.access.console_sessions import COOKIE_BYTES
from openbell_server.transport.console.messages import Request

SESSION: Final = "__Host-openbell"
# A sign-in that waits until the browser returns from the provider; encrypted.
PENDING: Final = "__Host-openbell-login"
# Lax, so that it is sent when the provider leads the browser back; changes are checked in addition.
_ATTRIBUTES: Final = "Path=/; Secure; HttpOnly; SameSite=Lax"
_LENGTH_MAX: Final = 4096


def read_cookie(request: Request, name: str) -> bytes | None:
    """The bytes of the cookie; None if it is absent or not one of ours."""
    prefix = f"{name}=".encode()
    for header, text in request.scope["headers"]:
        if header == b"cookie":
            for part in text.split(b";"):
                if part.strip().startswith(prefix):
                    return _decoded(part.strip()[len(prefix) :])
    return None


def read_session(request: Request) -> bytes | None:
    cookie = read_cookie(request, SESSION)
    return cookie if cookie is not None and len(cookie) == COOKIE_BYTES else None


def set_cookie(name: str, value: bytes, seconds: float) -> tuple[bytes, bytes]:
    text = base64.urlsafe_b64encode(value).rstrip(b"=").decode()
    return b"set-cookie", f"{name}={text}; Max-Age={int(seconds)}; {_ATTRIBUTES}".encode()


def clear_cookie(name: str) -> tuple[bytes, bytes]:
    return b"set-cookie", f"{name}=; Max-Age=0; {_ATTRIBUTES}".encode()


def _decoded(value: bytes) -> bytes | None:
    if len(value) > _LENGTH_MAX:
        return None
    try:
        return base64.b64decode(value + b"=" * (-len(value) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        return None
