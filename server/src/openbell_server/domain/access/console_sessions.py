"""Sessions of the console: how long they last, and where a sign-in may lead."""

import re
from typing import Final

SESSION_SECONDS: Final = 12 * 3600.0
IDLE_SECONDS: Final = 3600.0
# The use of a session is written at most this often.
NOTE_USE_SECONDS: Final = 60.0
# How long before the end of a token it is renewed, unless it lives less than twice as long.
REFRESH_SECONDS: Final = 60.0
SESSIONS_PER_USER_MAX: Final = 50
COOKIE_BYTES: Final = 32
HOME: Final = "/console/"
PATH_LENGTH_MAX: Final = 2048
# A path below /console/ of this site: a second slash or a backslash at its start would name another site.
_LOCAL: Final = re.compile(r"/console/(?:[A-Za-z0-9_~!$&'()*+,;=:@%-][A-Za-z0-9._~!$&'()*+,;=:@%/-]*)?(?:\?[!-~]*)?")
_OTHERS: Final = re.compile(r"/console/(?:login|callback|logout|logout-everywhere|session|assets)(?![^/?])")


def local_path(wanted: str | None) -> str:
    """Where to go after a sign-in: the wanted page of the console, or its first one if that is no such page."""
    if wanted is None or len(wanted) > PATH_LENGTH_MAX or not _LOCAL.fullmatch(wanted) or _OTHERS.match(wanted):
        return HOME
    if ".." in wanted or "//" in wanted.partition("?")[0]:
        return HOME
    return wanted


def refresh_ahead(lifetime_seconds: float) -> float:
    """How many seconds before its end a token of this lifetime is renewed."""
    return min(REFRESH_SECONDS, lifetime_seconds / 2)
