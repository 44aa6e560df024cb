"""Time zones by their IANA names."""

import re
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from openbell_server.domain.errors import InvalidCommand

DEFAULT_ZONE: Final = "UTC"
# Area and place, so that no name leads to a file which means another zone on each machine.
_ZONE = re.compile(r"UTC|[A-Z][A-Za-z]+(/[A-Z][A-Za-z0-9_+-]+){1,2}", re.ASCII)


def zone_of(name: str) -> ZoneInfo | None:
    """The zone, if this machine knows it."""
    try:
        return ZoneInfo(name) if _ZONE.fullmatch(name) else None
    except (ZoneInfoNotFoundError, OSError):
        return None


def check_zone(name: str) -> None:
    """Refuse the timezone of a body that is none."""
    if zone_of(name) is None:
        raise InvalidCommand("/timezone", "must be UTC or the IANA name of a zone, such as America/New_York")
