"""Records a change of an account or its credential: under the account's lock, in queue, audit log and event log."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from openbell_server.adapters.postgres import audit_log, named_queries
from openbell_server.adapters.postgres.audit_log import Facts
from openbell_server.adapters.postgres.connection import Connection
from openbell_server.domain.orders.action_lifecycle import Reason

_queries = named_queries.load("account_changes")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedChange:
    """A change as the accounts' queue and the audit log record it; it never contains a secret."""

    organization_id: UUID
    account_id: UUID
    # Type and id of who made the change.
    principal: tuple[str, str]
    audit_id: UUID
    operation: str
    object_id: UUID
    before: Facts | None
    after: Facts
    event_type: str
    payload: Mapping[str, Any]
    # For the account's event log: names of the changed fields, and the reason if the caller did not request the change.
    changed: Sequence[str]
    reason: Reason | None = None


async def lock_account(connection: Connection, organization_id: UUID, account_id: UUID) -> bool:
    """Take the account's lock for the rest of the transaction; False if the organization has no such account."""
    locked = await _queries.lock_account(connection, organization_id=organization_id, account_id=account_id)
    return locked is not None


async def wait_for_openings(connection: Connection, organization_id: UUID) -> None:
    """Before an account is stopped: whether one is stopped decides whether another may be opened."""
    await _queries.wait_for_openings(connection, whose=organization_id)


async def begin_epoch(connection: Connection, organization_id: UUID, account_id: UUID) -> None:
    """Invalidate every evaluation made before; the caller holds the account's lock."""
    await _queries.begin_epoch(connection, organization_id=organization_id, account_id=account_id)


async def queue_and_audit(connection: Connection, change: RecordedChange) -> None:
    """Queue and audit a change in its own transaction."""
    await _queries.queue_account_event(
        connection,
        organization_id=change.organization_id,
        account_id=change.account_id,
        event_type=change.event_type,
        payload=json.dumps(change.payload),
    )
    await audit_log.append(
        connection,
        change.organization_id,
        change.audit_id,
        change.principal,
        change.operation,
        change.object_id,
        change.before,
        change.after,
    )


async def record(connection: Connection, change: RecordedChange) -> None:
    """Queue, audit and append the event of a change of an existing account, and begin a new epoch of the account.

    The caller holds the account's lock and has written the changed rows.
    """
    await begin_epoch(connection, change.organization_id, change.account_id)
    await queue_and_audit(connection, change)
    await append_account_changed(connection, change.organization_id, change.account_id, change.changed, change.reason)


async def append_account_changed(
    connection: Connection,
    organization_id: UUID,
    account_id: UUID,
    changed: Sequence[str],
    reason: Reason | None = None,
) -> None:
    """Append the event. The caller holds the account's lock and has written the changed rows."""
    await _queries.append_account_changed(
        connection,
        organization_id=organization_id,
        account_id=account_id,
        changed=list(changed),
        reason_code=reason and reason.code,
        broker_code=reason and reason.broker_code,
        broker_text=reason and reason.broker_text,
    )
