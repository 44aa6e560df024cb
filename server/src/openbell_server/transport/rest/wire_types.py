"""Types that many request and response bodies share."""

from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta

from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.names import NAME_LENGTH_MAX, REASON_LENGTH_MAX

Moment = Annotated[datetime, Meta(tz=True)]
# The JSON schema describes these formats; the domain checks them.
NameText = Annotated[
    str,
    Meta(
        description="printable, not only spaces",
        examples=["rebalancer"],
        extra_json_schema={"minLength": 1, "maxLength": NAME_LENGTH_MAX, "format": "name"},
    ),
]
ZoneText = Annotated[
    str,
    Meta(
        max_length=64,
        description="UTC or the IANA name of a zone",
        examples=["America/New_York"],
        extra_json_schema={"format": "timezone"},
    ),
]
ReasonText = Annotated[
    str,
    Meta(
        description="for people, printable",
        extra_json_schema={"format": "printable", "minLength": 1, "maxLength": REASON_LENGTH_MAX},
    ),
]


def in_utc(expires_at: datetime | None) -> datetime | None:
    """The expiry time in UTC, as it is stored."""
    try:
        return None if expires_at is None else expires_at.astimezone(UTC)
    except OverflowError:
        # An offset can move a time near year 1 or 9999 out of the range of datetime.
        raise InvalidCommand("expires_at", "must be in the years 1 to 9999 of UTC") from None
