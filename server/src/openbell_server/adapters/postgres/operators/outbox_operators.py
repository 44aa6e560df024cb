"""Lists rows of the outbox queues for operators, and acknowledges or requeues failed rows; each change is audited."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, cast

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.audit_log import Facts, facts_of
from openbell_server.adapters.postgres.connection import Connection, DatabaseClock, Role, transaction
from openbell_server.adapters.postgres.events.outbox_health import read_queues
from openbell_server.adapters.postgres.operators.operator_store import OperatorStore
from openbell_server.domain.errors import OperatorError
from openbell_server.domain.events.outbox import OutboxStatus, Queue
from openbell_server.domain.events.outbox_health import QueueStanding

HANDLED_MAX: Final = 1000
_queries = named_queries.load("outbox_operators")
_REQUEUES: Final = {
    Queue.ACCOUNTS: _queries.requeue_accounts_row,
    Queue.INTENTS: _queries.requeue_intents_row,
    Queue.USERS: _queries.requeue_users_row,
}


@dataclass(frozen=True, slots=True)
class PostgresOutboxOperators(OperatorStore):
    """An acknowledged or requeued row stays failed and counted."""

    async def standing(self) -> list[QueueStanding]:
        return await read_queues(self.pool, Role.OPERATOR)

    async def list_rows(self, queues: Iterable[Queue], statuses: Iterable[OutboxStatus], row_limit: int) -> list[Facts]:
        """Rows that are not completed, the oldest first."""
        rows = _queries.list_rows_across_organizations
        return await self._list(rows, queues=list(queues), statuses=list(statuses), row_limit=row_limit)

    async def show(self, queue: Queue, outbox_id: int) -> Facts:
        return facts_of(await self._row(queue, outbox_id))

    async def handle_all(self, queue: Queue, reason: str, *, requeue: bool) -> list[Facts]:
        """Acknowledge or requeue all unacknowledged rows, in the order in which they were queued."""
        unacknowledged = _queries.list_unacknowledged_across_organizations
        rows = await self._list(unacknowledged, queue=queue, row_limit=HANDLED_MAX)
        return [await self.handle(queue, row["outbox_id"], reason, requeue=requeue) for row in rows]

    async def _row(self, queue: Queue, outbox_id: int) -> asyncpg.Record:
        row = await self._find(_queries.find_row_across_organizations, queue=queue, outbox_id=outbox_id)
        if row is None:
            raise OperatorError(
                f"There is no row {outbox_id} in the queue {queue}: see `openbell-server outbox list --queue {queue}"
                " --status all`. Completed rows are removed after a while."
            )
        return cast("asyncpg.Record", row)

    async def handle(self, queue: Queue, outbox_id: int, reason: str, *, requeue: bool) -> Facts:
        """Record that an operator has checked a failed row; with `requeue`, also queue a copy of it, once.

        A row acknowledged before does not change.
        """
        row = await self._row(queue, outbox_id)
        if row["status"] != OutboxStatus.FAILED:
            raise OperatorError(
                f"Row {outbox_id} of the queue {queue} is {row['status']}: only failed rows can be acknowledged or"
                " requeued."
            )
        (audit_id,) = await DatabaseClock(self.pool).new_ids(1)
        place = {"organization_id": row["organization_id"], "queue": queue, "outbox_id": outbox_id}
        async with transaction(self.pool, Role.OPERATOR, row["organization_id"]) as connection:
            before = facts_of(await _queries.lock_failure(connection, **place))
            if requeue and before["requeued_as"] is not None:
                raise OperatorError(
                    f"Row {outbox_id} of the queue {queue} was requeued before, as row {before['requeued_as']}: see"
                    f" `openbell-server outbox show {queue} {before['requeued_as']}`."
                )
            if not requeue and before["acknowledged_at"] is not None:
                return before
            after = facts_of(
                await _queries.handle_failure(
                    connection,
                    **place,
                    operator=self.operator,
                    reason=reason,
                    requeued_as=await _copy(connection, queue, row) if requeue else None,
                )
            )
            operation = "outbox requeue" if requeue else "outbox acknowledge"
            what = f"{queue} {outbox_id}"
            await self._audit(connection, row["organization_id"], audit_id, operation, what, before, after)
            return after


async def _copy(connection: Connection, queue: Queue, row: asyncpg.Record) -> int:
    """Queue a copy of the row at the end of its queue, and return its id."""
    copied = _REQUEUES[queue](connection, organization_id=row["organization_id"], outbox_id=row["outbox_id"])
    return cast("int", await copied)
