"""Posts to targets that customers name."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

_TAKEN: Final = range(200, 300)


class Trouble(StrEnum):
    """Why a delivery does not count."""

    TARGET_REFUSED = "target_refused"
    NOT_REACHED = "not_reached"
    TIMED_OUT = "timed_out"
    BROKEN_ANSWER = "broken_answer"
    # There was a whole answer, and it was not 2xx.
    NOT_TAKEN = "not_taken"


class NotDelivered(Exception):
    """There was no answer that counts; the message says what there was instead."""

    def __init__(self, trouble: Trouble, message: str) -> None:
        """What kind of trouble, and in words."""
        super().__init__(message)
        self.trouble = trouble


@dataclass(frozen=True, slots=True)
class Answer:
    """What the target said, and for how many seconds it wants calm."""

    status: int
    retry_after: float = 0.0

    @property
    def is_taken(self) -> bool:
        """Whether it has what was sent."""
        return self.status in _TAKEN


class Poster(Protocol):
    """How a delivery reaches its target."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send once and hear the answer; raises NotDelivered."""
