"""Types that many shapes share."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

Moment = Annotated[datetime, Meta(tz=True)]
