"""Rate limits: reads per principal, commands per account, key validations per address."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from openbell_server.application.access.ports.rate_limits import CallCounts, Window
from openbell_server.domain.access.principals import Caller, Principal
from openbell_server.domain.errors import RateLimited
from openbell_server.domain.identifiers import AccountId

_ADDRESSES: Final = "addresses"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The limits; those of submits and cancels apply per account."""

    reads_per_second: int
    reads_per_minute: int
    submits_per_second: int
    cancels_per_second: int
    validations_per_second: int


@dataclass(frozen=True, slots=True)
class LimitRates:
    """Raises RateLimited for a call over a limit, before the call is evaluated."""

    counts: CallCounts
    rates: Rates
    # Refused calls by kind since the process started.
    refusals: Counter[str] = field(default_factory=Counter)

    async def read(self, caller: Caller) -> None:
        """Count a read, or a write of anything but a command."""
        windows = (Window(self.rates.reads_per_second, 1), Window(self.rates.reads_per_minute, 60))
        await self._take(f"read {caller.kind} {caller.provider} {caller.id}", _owner(caller), *windows)

    async def command(self, caller: Caller | Principal, account_id: AccountId, *, cancels: bool) -> None:
        # The organization is part of the name, so that one organization cannot use up the limit of another's account.
        kind, limit = (
            ("cancel", self.rates.cancels_per_second) if cancels else ("submit", self.rates.submits_per_second)
        )
        await self._take(f"{kind} {caller.organization_id} {account_id}", _owner(caller), Window(limit, 1))

    async def unknown_account(self, caller: Principal) -> None:
        """Count a command for an account that does not exist: each made-up id would have a limit of its own."""
        await self._take(f"unknown {caller.id}", _owner(caller), Window(self.rates.reads_per_second, 1))

    async def validation(self, address: str) -> None:
        """Count a key validation from an address."""
        await self._take(f"validate {address}", _ADDRESSES, Window(self.rates.validations_per_second, 1))

    async def guess(self, address: str) -> None:
        """Count a wrong credential from an address; a right one is never refused because of these."""
        await self._take(f"guess {address}", _ADDRESSES, Window(self.rates.validations_per_second, 1))

    async def _take(self, name: str, owner: str, *windows: Window) -> None:
        if full := await self.counts.take(name, windows, owner):
            self.refusals[name.partition(" ")[0]] += 1
            raise RateLimited(full.window.limit, full.window.seconds, full.wait_seconds)


def _owner(caller: Caller | Principal) -> str:
    return str(caller.organization_id or caller.id)
