"""Posts messages to the URLs of customers."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

_TAKEN: Final = range(200, 300)


class DeliveryFailure(StrEnum):
    """Why a delivery failed."""

    TARGET_REFUSED = "TARGET_REFUSED"
    NOT_REACHED = "NOT_REACHED"
    TIMED_OUT = "TIMED_OUT"
    BROKEN_ANSWER = "BROKEN_ANSWER"
    # The target answered, but not with 2xx.
    NOT_TAKEN = "NOT_TAKEN"


class NotDelivered(Exception):
    """The target gave no valid answer; the message describes what happened."""

    def __init__(self, trouble: DeliveryFailure, message: str) -> None:
        super().__init__(message)
        self.trouble = trouble


@dataclass(frozen=True, slots=True)
class Answer:
    """The target's status and its Retry-After in seconds."""

    status: int
    retry_after: float = 0.0

    @property
    def is_taken(self) -> bool:
        return self.status in _TAKEN


class Poster(Protocol):
    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send once and return the answer; raises NotDelivered."""
