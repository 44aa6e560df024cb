"""The answer of the health route."""

from typing import Literal

from msgspec import Struct


class HealthBody(Struct, frozen=True):
    """Alive, and the database answers."""

    status: Literal["ok"]
