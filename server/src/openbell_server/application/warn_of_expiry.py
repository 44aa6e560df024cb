"""Warn of credentials that run out: 14 days, 3 days and 1 day before, and at the end, each exactly once."""

from dataclasses import dataclass
from typing import Final

from openbell_server.application.ports.credentials import ExpiryStore
from openbell_server.application.ports.hints import Hints

BATCH_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class WarnOfExpiry:
    """What every relay does now and then; of those that meet at a credential one tells."""

    store: ExpiryStore
    hints: Hints

    async def __call__(self) -> bool:
        """One round; whether there may be more to tell. What fails for one account holds up no other."""
        due = await self.store.running_out_across_organizations(BATCH_MAX)
        failures: list[Exception] = []
        for credential in due:
            try:
                if await self.store.tell(credential):
                    self.hints.events_were_written([credential.account_id])
                    self.hints.outbox_has_rows()
            except Exception as error:  # noqa: BLE001 - the first of them is raised when the others had their turn
                failures.append(error)
        if failures:
            raise failures[0]
        return len(due) == BATCH_MAX
