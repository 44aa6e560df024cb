"""Stores webhooks; a change and its audit row are one transaction."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg

from openbell_server.adapters.postgres import audit_log, named_queries
from openbell_server.adapters.postgres.audit_log import Facts
from openbell_server.adapters.postgres.connection import Connection, DatabaseClock, PostgresStore, Role, transaction
from openbell_server.domain.access.accounts import Environment, require_version
from openbell_server.domain.access.caps import CAPS, Cap
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.events.webhooks import (
    SECRET_OVERLAP,
    DeliveryAttempt,
    DeliveryQueue,
    DeliveryQueueCounts,
    NewWebhook,
    Webhook,
    WebhookChange,
    WebhookStatus,
)
from openbell_server.domain.identifiers import AccountId, OrganizationId

_queries = named_queries.load("webhooks")
_organizations = named_queries.load("organizations")


@dataclass(frozen=True, slots=True)
class PostgresWebhookStore(PostgresStore):
    """Implements WebhookStore."""

    ids: DatabaseClock
    cap: Cap = CAPS["webhooks"]

    async def is_organization_disabled(self, organization_id: OrganizationId) -> bool | None:
        row = await self._one(_organizations.read_organization, organization_id)
        return None if row is None else bool(row["disabled"])

    async def add(self, principal: Principal, new: NewWebhook) -> Webhook:
        (webhook_id,) = await self.ids.new_ids(1)
        async with self._changing(principal, webhook_id) as change:
            await _queries.lock_webhooks(change.connection, whose=principal.organization_id)
            await change.require_accounts(new.account_ids, new.environment)
            row = await change.run(
                _queries.add_webhook,
                url=new.url,
                description=new.description,
                kinds=sorted(new.kinds),
                account_ids=_listed(new.account_ids),
                environment=new.environment,
                principal_type=principal.kind,
                principal_id=principal.id,
                webhooks_max=self.cap.limit,
            )
            if row is None:
                raise self.cap.refusal()
            await change.run(_queries.add_webhook_lanes)
            after = _webhook(row)
            await change.audit("webhooks create", None, _facts(after))
        return after

    async def list_all(
        self, organization_id: OrganizationId, environment: Environment | None
    ) -> list[tuple[Webhook, DeliveryQueueCounts]]:
        return await self._list(organization_id, None, environment)

    async def find(
        self, organization_id: OrganizationId, webhook_id: UUID
    ) -> tuple[Webhook, DeliveryQueueCounts] | None:
        found = await self._list(organization_id, webhook_id, None)
        return found[0] if found else None

    async def _list(
        self, organization_id: OrganizationId, webhook_id: UUID | None, environment: Environment | None
    ) -> list[tuple[Webhook, DeliveryQueueCounts]]:
        rows = await self._rows(_queries.list_webhooks, organization_id, webhook_id=webhook_id, environment=environment)
        return [
            (_webhook(row), DeliveryQueueCounts(row["accounts"], row["behind"], row["failing"], row["parked"]))
            for row in rows
        ]

    async def change(
        self, principal: Principal, webhook_id: UUID, change: WebhookChange, expected: Collection[int] | None
    ) -> Webhook | None:
        async with self._changing(principal, webhook_id) as changing:
            before = await changing.lock(expected)
            if before is None:
                return None
            resumed = await changing.resume() if change.status is WebhookStatus.ACTIVE else {}
            wanted = change.applied_to(before)
            if wanted == before:
                if resumed:
                    await changing.audit("webhooks resume", None, resumed)
                return before
            await changing.require_accounts(change.account_ids, before.environment)
            row = await changing.run(
                _queries.save_webhook,
                url=wanted.url,
                description=wanted.description,
                kinds=sorted(wanted.kinds),
                account_ids=_listed(wanted.account_ids),
                wanted_status=wanted.status,
            )
            if wanted.account_ids != before.account_ids:
                await changing.run(_queries.remove_webhook_lanes)
                await changing.run(_queries.add_webhook_lanes)
            if wanted.url != before.url:
                await changing.run(_queries.retry_webhook_lanes_now)
            after = _webhook(row)
            await changing.audit("webhooks change", _facts(before), {**_facts(after), **resumed})
        return after

    async def rotate(self, principal: Principal, webhook_id: UUID, expected: Collection[int] | None) -> Webhook | None:
        async with self._changing(principal, webhook_id) as changing:
            before = await changing.lock(expected)
            if before is None:
                return None
            row = await changing.run(_queries.rotate_webhook_secret, overlap_seconds=SECRET_OVERLAP.total_seconds())
            after = _webhook(row)
            await changing.audit("webhooks rotate-secret", _facts(before), _facts(after))
        return after

    async def remove(self, principal: Principal, webhook_id: UUID, expected: Collection[int] | None) -> bool:
        async with self._changing(principal, webhook_id) as changing:
            before = await changing.lock(expected)
            if before is None:
                return False
            await changing.run(_queries.remove_webhook)
            await changing.run(_queries.remove_webhook_attempts)
            await changing.audit("webhooks delete", _facts(before), {"removed": True})
        return True

    async def list_queues(
        self, organization_id: OrganizationId, webhook_id: UUID, parked: bool | None, after: int, limit: int
    ) -> list[tuple[int, DeliveryQueue]]:
        rows = await self._rows(
            _queries.list_webhook_lanes,
            organization_id,
            webhook_id=webhook_id,
            parked=parked,
            after=after,
            row_limit=limit,
        )
        found = [dict(row) for row in rows]
        return [(row.pop("number"), DeliveryQueue(**row)) for row in found]

    async def list_attempts(
        self, organization_id: OrganizationId, webhook_id: UUID, before: int, limit: int
    ) -> list[tuple[int, DeliveryAttempt]]:
        rows = await self._rows(
            _queries.list_webhook_attempts, organization_id, webhook_id=webhook_id, before_no=before, row_limit=limit
        )
        found = [dict(row) for row in rows]
        return [(row.pop("attempt_no"), DeliveryAttempt(**row)) for row in found]

    async def replay(self, principal: Principal, webhook_id: UUID, account_id: AccountId | None, after_seq: int) -> int:
        async with self._changing(principal, webhook_id) as changing:
            lanes = await changing.count(_queries.replay_webhook_lanes, account_id=account_id, after_seq=after_seq)
            if lanes:
                named = {} if account_id is None else {"account_id": str(account_id)}
                await changing.audit("webhooks replay", None, {**named, "after_seq": after_seq, "lanes": lanes})
        return lanes

    @asynccontextmanager
    async def _changing(self, principal: Principal, webhook_id: UUID) -> AsyncIterator["_Change"]:
        # Before the transaction: a task that holds a connection must not wait for a second one.
        (audit_id,) = await self.ids.new_ids(1)
        async with transaction(self.pool, Role.TENANT, principal.organization_id) as connection:
            yield _Change(connection, principal, webhook_id, audit_id)


@dataclass(frozen=True, slots=True)
class _Change:
    connection: Connection
    principal: Principal
    webhook_id: UUID
    audit_id: UUID

    def _where(self) -> dict[str, UUID]:
        return {"organization_id": self.principal.organization_id, "webhook_id": self.webhook_id}

    async def run(self, statement: Any, **values: object) -> Any:  # noqa: ANN401 - a named statement and its result
        return await statement(self.connection, **self._where(), **values)

    async def count(self, statement: Any, **values: object) -> int:  # noqa: ANN401 - a named statement
        """How many rows the statement returns."""
        return len([row async for row in statement(self.connection, **self._where(), **values)])

    async def resume(self) -> Facts:
        """Retry failed and parked queues at once."""
        lanes = await self.count(_queries.resume_webhook_lanes)
        return {"lanes": lanes} if lanes else {}

    async def lock(self, expected: Collection[int] | None) -> Webhook | None:
        row = await self.run(_queries.lock_webhook)
        if row is None:
            return None
        require_version(row["version"], expected)
        return _webhook(row)

    async def require_accounts(self, account_ids: frozenset[AccountId] | None, environment: Environment | None) -> None:
        """Raise InvalidCommand for an account of another organization or environment."""
        if account_ids is None:
            return
        known = _queries.known_accounts(
            self.connection,
            organization_id=self.principal.organization_id,
            environment=environment,
            account_ids=_listed(account_ids),
        )
        if len([row async for row in known]) != len(account_ids):
            whose = "accounts of yours" if environment is None else f"{environment} accounts of yours"
            raise InvalidCommand("account_ids", f"must name {whose} only")

    async def audit(self, operation: str, before: Facts | None, after: Facts) -> None:
        principal = self.principal
        who = (principal.kind, principal.id)
        await audit_log.append(
            self.connection, principal.organization_id, self.audit_id, who, operation, self.webhook_id, before, after
        )


def _listed(account_ids: frozenset[AccountId] | None) -> list[AccountId] | None:
    return None if account_ids is None else sorted(account_ids)


def _facts(webhook: Webhook) -> Facts:
    until = webhook.previous_secret_until
    return {
        "url": webhook.url,
        "description": webhook.description,
        "types": sorted(kind.name for kind in webhook.kinds),
        "account_ids": None if webhook.account_ids is None else sorted(map(str, webhook.account_ids)),
        "environment": webhook.environment,
        "status": webhook.status,
        "secret_version": webhook.secret_version,
        "previous_secret_until": until and until.isoformat(),
        "version": webhook.version,
    }


def _webhook(row: asyncpg.Record) -> Webhook:
    named, environment = row["account_ids"], row["environment"]
    return Webhook(
        id=row["webhook_id"],
        organization_id=row["organization_id"],
        url=row["url"],
        description=row["description"],
        kinds=frozenset(map(EventKind, row["kinds"])),
        account_ids=None if named is None else frozenset(named),
        environment=None if environment is None else Environment(environment),
        status=WebhookStatus(row["status"]),
        secret_version=row["secret_version"],
        previous_secret_until=row["previous_secret_until"],
        version=row["version"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        principal=(row["principal_type"], row["principal_id"]),
    )
