"""Detects that the database was restored or promoted, and holds all accounts until they were reconciled."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import PostgresStore, Role, transaction
from openbell_server.domain.identifiers import AccountId, ActionId

SHOWN_MAX = 1000
_queries = named_queries.load("recovery")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryStanding:
    epoch: int
    held_at: datetime | None
    look_back_to: datetime | None
    accounts_held: int
    forgotten_orders: Sequence[tuple[AccountId, ActionId]]


@dataclass(frozen=True, slots=True)
class PostgresRecoveryStore(PostgresStore):
    """Holds all accounts after a restore; each hold ends when the account was reconciled with its broker."""

    async def notice_restore(self) -> bool:
        """Hold every account if the database was restored or promoted since its last write. Returns whether it was."""
        seen = await self._one_across(Role.EXECUTOR, _queries.read_incarnation)
        if seen["is_this"] and not seen["is_old"]:
            return False
        async with transaction(self.pool, Role.EXECUTOR) as connection:
            # Another executor may have recorded the restore before we got the lock.
            await _queries.lock_incarnation(connection)
            restored = not (await _queries.read_incarnation(connection))["is_this"]
            await (_queries.hold_accounts if restored else _queries.stay_alive)(connection)
            return restored

    async def hold(self) -> None:
        """Hold every account, on an operator's request after a restore."""
        async with transaction(self.pool, Role.EXECUTOR) as connection:
            await _queries.lock_incarnation(connection)
            await _queries.hold_accounts(connection)

    async def standing(self) -> RecoveryStanding:
        async with transaction(self.pool, Role.EXECUTOR) as connection:
            seen = await _queries.read_incarnation(connection)
            forgotten = _queries.forgotten_orders_across_organizations(connection, row_limit=SHOWN_MAX)
            return RecoveryStanding(
                epoch=seen["epoch"],
                held_at=seen["held_at"],
                look_back_to=seen["look_back_to"],
                accounts_held=await _queries.count_held_across_organizations(connection),
                forgotten_orders=[(row["account_id"], row["action_id"]) async for row in forgotten],
            )
