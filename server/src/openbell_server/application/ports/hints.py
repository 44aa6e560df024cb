"""Hints between processes: losing a hint costs latency, never correctness."""

from collections.abc import Sequence
from typing import Protocol

from openbell_server.domain.identifiers import AccountId


class Hints(Protocol):
    """Fire-and-forget notices; no method raises or waits."""

    def outbox_has_rows(self) -> None: ...

    def work_was_recorded(self, account_id: AccountId) -> None:
        """Wake the executor of the account; the relay repeats the hint with its next round."""

    def events_were_written(self, account_ids: Sequence[AccountId]) -> None:
        """Wake the followers of these accounts."""

    def sign_in_was_asked_for(self, account_id: AccountId) -> None:
        """Wake the executor of the account: a caller waits for the broker's answer about the credential."""
