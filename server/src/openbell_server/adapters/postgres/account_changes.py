"""What every change of an account or its credential has in common: the account's lock, and whom it tells."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from openbell_server.adapters.postgres import audit_log, named_queries
from openbell_server.adapters.postgres.audit_log import Facts
from openbell_server.adapters.postgres.connection import Connection
from openbell_server.domain.action_lifecycle import Reason

_queries = named_queries.load("account_changes")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedChange:
    """A change that was made, as the accounts' queue and the audit log tell of it; never with a secret."""

    organization_id: UUID
    account_id: UUID
    # Who made it: a type and an id.
    principal: tuple[str, str]
    audit_id: UUID
    operation: str
    object_id: UUID
    before: Facts | None
    after: Facts
    event_type: str
    payload: Mapping[str, Any]
    # For the account's log: what is not as before, by field names, and why, if somebody else decided it.
    changed: Sequence[str]
    reason: Reason | None = None


async def lock_account(connection: Connection, organization_id: UUID, account_id: UUID) -> bool:
    """Take the account's lock for the rest of the transaction; False if the organization has no such account."""
    locked = await _queries.lock_account(connection, organization_id=organization_id, account_id=account_id)
    return locked is not None


async def begin_epoch(connection: Connection, organization_id: UUID, account_id: UUID) -> None:
    """Have everything that was evaluated before evaluated again; under the account's lock."""
    await _queries.begin_epoch(connection, organization_id=organization_id, account_id=account_id)


async def tell(connection: Connection, change: RecordedChange) -> None:
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
    """Tell of a change of an account that was there before; under the account's lock, after its rows were written.

    With it begins a new epoch of the account.
    """
    await begin_epoch(connection, change.organization_id, change.account_id)
    await tell(connection, change)
    await append_account_changed(connection, change.organization_id, change.account_id, change.changed, change.reason)


async def append_account_changed(
    connection: Connection,
    organization_id: UUID,
    account_id: UUID,
    changed: Sequence[str],
    reason: Reason | None = None,
) -> None:
    """Append the event, under the account's lock and after the change is written; what changed goes by field names."""
    await _queries.append_account_changed(
        connection,
        organization_id=organization_id,
        account_id=account_id,
        changed=list(changed),
        reason_code=reason and reason.code,
        broker_code=reason and reason.broker_code,
        broker_text=reason and reason.broker_text,
    )
