"""Hints between processes: they make things quick, never right. Losing all of them costs latency only."""

from collections.abc import Sequence
from typing import Protocol

from openbell_server.domain.identifiers import AccountId


class Hints(Protocol):
    """Fire-and-forget notices; none of these ever fails or waits."""

    def outbox_has_rows(self) -> None:
        """Wake the relay."""

    def events_were_written(self, account_ids: Sequence[AccountId]) -> None:
        """Wake whoever follows these accounts."""


class WorkQueue(Protocol):
    """The durable queue between relay and executors."""

    def is_reachable(self) -> bool:
        """Whether a publish has a chance now."""

    async def publish_work(self, slot: int, account_id: AccountId, message_id: str) -> None:
        """Say, durably, that the account has work; raises if the queue did not confirm within its bound."""


class EventQueue(Protocol):
    """Where others hear of changes, durably."""

    def is_reachable(self) -> bool:
        """Whether a publish has a chance now."""

    async def publish_user_event(self, event_type: str, payload: str, message_id: str) -> None:
        """Tell of a change; raises if the queue did not confirm within its bound."""
