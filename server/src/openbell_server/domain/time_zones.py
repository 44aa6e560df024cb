"""IANA time zones from the pinned tzdata package, so that every machine uses the same version, which receipts name."""

import re
from functools import lru_cache
from importlib import metadata, resources
from typing import Final
from zoneinfo import ZoneInfo

from openbell_server.domain.errors import InvalidCommand

DEFAULT_ZONE: Final = "UTC"
TZDATA_VERSION: Final = metadata.version("tzdata")
# Area and place only: names such as "localtime" mean another zone on each machine.
_ZONE = re.compile(r"UTC|[A-Z][A-Za-z]+(/[A-Z][A-Za-z0-9_+-]+){1,2}", re.ASCII)


@lru_cache(maxsize=1_000)
def zone_of(name: str) -> ZoneInfo | None:
    """The zone, or None if the tzdata package does not have it."""
    if not _ZONE.fullmatch(name):
        return None
    try:
        with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
            return ZoneInfo.from_file(file, key=name)
    except (OSError, ValueError):
        return None


def check_zone(name: str, field: str = "/timezone") -> None:
    if zone_of(name) is None:
        raise InvalidCommand(field, "must be UTC or the IANA name of a zone, such as America/New_York")
