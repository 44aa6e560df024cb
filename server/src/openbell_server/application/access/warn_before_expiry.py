"""Warn 14 days, 3 days and 1 day before a credential expires, and when it does; each warning is recorded once."""

from dataclasses import dataclass
from typing import Final

from openbell_server.application.access.ports.credentials import ExpiryStore
from openbell_server.application.ports.hints import Hints

BATCH_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class WarnOfExpiry:
    """Run by every relay; the store lets only one of them record a warning."""

    store: ExpiryStore
    hints: Hints

    async def __call__(self) -> bool:
        """Run one round and return whether more may be due; an error of one account does not stop the others."""
        due = await self.store.running_out_across_organizations(BATCH_MAX)
        failures: list[Exception] = []
        for credential in due:
            try:
                if await self.store.record_warning(credential):
                    self.hints.events_were_written([credential.account_id])
                    self.hints.outbox_has_rows()
            except Exception as error:  # noqa: BLE001 - the first one is raised after the others were tried
                failures.append(error)
        if failures:
            raise failures[0]
        return len(due) == BATCH_MAX
