"""Webhooks that an organization has, and what statements about them are called with."""

from typing import Any
from uuid import UUID

from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from support.builders.tenant import Tenant, new_id
from support.tenancy.statements import Owner

_WEBHOOK = (
    "insert into webhooks (organization_id, webhook_id, url, kinds, environment, created_at, updated_at,"
    " principal_type, principal_id)"
    " values ($1, $2, 'https://example.com/', '{1,2}', $3, now(), now(), 'USER', 'somebody')"
)
_FAILING_LANE = (
    "insert into webhook_lanes (organization_id, webhook_id, account_id, position, failing_since, next_attempt_at,"
    " updated_at) values ($1, $2, $3, 0, now(), now(), now())"
)

_ATTEMPT = (
    "insert into webhook_attempts (organization_id, webhook_id, account_id, account_seq, message_id, duration_millis)"
    " values ($1, $2, $3, 1, 'm', 1)"
)


async def with_webhook(pool: Pool, tenant: Tenant) -> Tenant:
    """A webhook, the lane of the account, which fails, and an attempt."""
    account, webhook_id = tenant.account, new_id()
    async with transaction(pool, Role.TENANT, account.organization_id) as connection:
        await connection.execute(_WEBHOOK, account.organization_id, webhook_id, account.environment)
        await connection.execute(_FAILING_LANE, account.organization_id, webhook_id, account.id)
    async with transaction(pool, Role.DELIVERY, account.organization_id) as connection:
        await connection.execute(_ATTEMPT, account.organization_id, webhook_id, account.id)
    return tenant


async def values_of_webhooks(owner: Owner, organization_id: UUID) -> dict[str, Any]:
    """A value for every parameter that statements about webhooks have to themselves."""
    webhook_id = await owner.fetchval(
        "select webhook_id from openbell.webhooks where organization_id = $1", organization_id
    )
    return {
        "webhook_id": webhook_id,
        "url": "https://example.com/other",
        "description": "other",
        "wanted_status": "PAUSED",
        "webhooks_max": 20,
        "overlap_seconds": 60.0,
        "parked": None,
        "after_seq": 0,
    }
