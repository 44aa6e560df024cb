"""Hints between processes: they make things quick, never right. Losing all of them costs latency only."""

from collections.abc import Sequence
from typing import Protocol

from openbell_server.domain.identifiers import AccountId


class Hints(Protocol):
    """Fire-and-forget notices; none of these ever fails or waits."""

    def outbox_has_rows(self) -> None:
        """Wake the relay."""

    def work_was_recorded(self, account_id: AccountId) -> None:
        """Wake the executor that has the account; the relay tells it again, when it next looks."""

    def events_were_written(self, account_ids: Sequence[AccountId]) -> None:
        """Wake whoever follows these accounts."""

    def sign_in_was_asked_for(self, account_id: AccountId) -> None:
        """Wake the executor that has the account: somebody waits to hear what its broker says of the credential."""
