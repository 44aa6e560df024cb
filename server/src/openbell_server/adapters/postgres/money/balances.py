"""Stores the balances that executors read from brokers, and which accounts' balances callers read."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.domain.money.balances import Balances, StoredBalances

# How often a process records that an account's balances are read.
WANTED_SECONDS: Final = 60.0
KEPT_MAX: Final = 10_000
_queries = named_queries.load("balances")


def balances_of(row: asyncpg.Record) -> Balances:
    return Balances(
        currency=row["currency"],
        cash=row["cash"],
        equity=row["equity"],
        buying_power=row["buying_power"],
        initial_margin=row["initial_margin"],
        maintenance_margin=row["maintenance_margin"],
        as_of=row["as_of"],
    )


@dataclass(slots=True)
class PostgresBalanceStore:
    """Implements BalanceStore; a process has one, for what it remembers."""

    pool: Pool
    clock: Callable[[], float] = time.monotonic
    # When this process last recorded that an account's balances are read.
    _wanted: OrderedDict[AccountId, float] = field(default_factory=OrderedDict)

    async def read_balances(self, organization_id: OrganizationId, account_id: AccountId) -> StoredBalances | None:
        now = self.clock()
        is_due = now - self._wanted.get(account_id, float("-inf")) > WANTED_SECONDS
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            if is_due:
                await _queries.want_balances(connection, organization_id=organization_id, account_id=account_id)
            row = await _queries.read_balances(connection, organization_id=organization_id, account_id=account_id)
        if is_due:
            self._note_wanted(account_id, now)
        return None if row is None else StoredBalances(balances=balances_of(row), read_at=row["read_at"])

    def _note_wanted(self, account_id: AccountId, now: float) -> None:
        self._wanted[account_id] = now
        self._wanted.move_to_end(account_id)
        if len(self._wanted) > KEPT_MAX:
            self._wanted.popitem(last=False)
