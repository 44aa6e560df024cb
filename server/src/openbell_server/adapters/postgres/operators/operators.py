"""Stores organizations, keys, accounts and users for operators; each change has its row in the audit log."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.access import account_changes
from openbell_server.adapters.postgres.access.account_changes import RecordedChange
from openbell_server.adapters.postgres.access.accounts import account_event_payload, changed_fields, open_account
from openbell_server.adapters.postgres.access.organizations import add_api_key, add_organization
from openbell_server.adapters.postgres.audit_log import Facts, facts_of
from openbell_server.adapters.postgres.connection import Connection, DatabaseClock, Role, transaction
from openbell_server.adapters.postgres.controls.calendars import PostgresCalendarOperators
from openbell_server.adapters.postgres.operators.action_operators import PostgresActionOperators
from openbell_server.adapters.postgres.operators.audit_operators import PostgresAuditOperators
from openbell_server.adapters.postgres.operators.halt_operators import PostgresHaltOperators
from openbell_server.adapters.postgres.operators.operator_store import OperatorStore
from openbell_server.adapters.postgres.operators.outbox_operators import PostgresOutboxOperators
from openbell_server.adapters.postgres.schema import operators_pool
from openbell_server.domain.access.accounts import Environment, NewAccount
from openbell_server.domain.access.api_keys import PresentedKey
from openbell_server.domain.access.credentials import CredentialStatus
from openbell_server.domain.controls.rules import PLATFORM_ID
from openbell_server.domain.errors import OperatorError
from openbell_server.domain.identifiers import AccountId, OrganizationId

LISTED_MAX: Final = 10_000
_queries = named_queries.load("operators")
_rules = named_queries.load("control_rules")


@asynccontextmanager
async def operator_store(url: str, operator: str) -> AsyncIterator["PostgresOperatorStore"]:
    """The store for an operator. Raises OperatorError with what to fix if the database cannot be used."""
    not_allowed = (
        "This login may not act as an operator: use the one that runs `openbell-server migrate`, or grant"
        " openbell_operator to yours. The processes' login must not have it."
    )
    then = "and then with `list` whether a change was made."
    async with operators_pool(url, 1, not_allowed=not_allowed, then=then) as pool:
        yield PostgresOperatorStore(pool, operator)


@dataclass(frozen=True, slots=True)
class PostgresOperatorStore(OperatorStore):
    """A change and its audit row are one transaction."""

    @property
    def actions(self) -> PostgresActionOperators:
        return PostgresActionOperators(self.pool, self.operator)

    @property
    def audit(self) -> PostgresAuditOperators:
        return PostgresAuditOperators(self.pool, self.operator)

    @property
    def calendars(self) -> PostgresCalendarOperators:
        return PostgresCalendarOperators(self.pool, self.operator)

    @property
    def halts(self) -> PostgresHaltOperators:
        return PostgresHaltOperators(self.pool, self.operator)

    @property
    def outbox(self) -> PostgresOutboxOperators:
        return PostgresOutboxOperators(self.pool, self.operator)

    async def list_across_organizations(self) -> list[Facts]:
        """All organizations, the oldest first."""
        return await self._list(_queries.list_across_organizations, row_limit=LISTED_MAX)

    async def create_organization(
        self, *, name: str, external_id: str | None, provider: str, entitlements: Iterable[str]
    ) -> Facts:
        """Add an organization; without an external id, its own id is used."""
        organization_id, audit_id = await DatabaseClock(self.pool).new_ids(2)
        external_id = external_id or str(organization_id)
        try:
            async with transaction(self.pool, Role.OPERATOR, organization_id) as connection:
                await add_organization(
                    connection,
                    OrganizationId(organization_id),
                    external_id=external_id,
                    provider=provider,
                    name=name,
                    entitlements=entitlements,
                )
                after = await self._lock_organization(connection, organization_id)
                change = (audit_id, "organizations create", organization_id)
                await self._audit(connection, organization_id, *change, None, after)
                return after
        except asyncpg.UniqueViolationError as error:
            raise OperatorError(
                f"{provider} has another organization with the external id {external_id} here: see"
                " `openbell-server organizations list`."
            ) from error

    async def disable_organization(self, organization_id: UUID, *, disabled: bool) -> Facts:
        """While it is disabled, the organization may only cancel."""
        operation = "organizations disable" if disabled else "organizations enable"
        return await self._change_organization(organization_id, operation, lambda _: {"disabled": disabled})

    async def set_internal(self, organization_id: UUID, *, internal: bool) -> Facts:
        """Mark the organization as the operator's own, or as a customer's."""
        return await self._change_organization(
            organization_id, "organizations internal", lambda _: {"internal": internal}
        )

    async def enforce_paper(self, organization_id: UUID, enforcement: str) -> Facts:
        """Set whether controls refuse on paper accounts, or only report what they would refuse."""
        return await self._change_organization(
            organization_id, "organizations enforce-paper", lambda _: {"paper_enforcement": enforcement}
        )

    async def entitle(self, organization_id: UUID, entitlements: Iterable[str]) -> Facts:
        """Add entitlements to those that the organization has."""
        added = set(entitlements)
        return await self._change_organization(
            organization_id,
            "organizations entitle",
            lambda before: {"entitlements": sorted(added | set(before["entitlements"]))},
        )

    async def revoke_entitlements(self, organization_id: UUID, entitlements: Iterable[str]) -> Facts:
        removed = set(entitlements)
        return await self._change_organization(
            organization_id,
            "organizations revoke-entitlement",
            lambda before: {"entitlements": sorted(set(before["entitlements"]) - removed)},
        )

    async def create_account(
        self, organization_id: UUID, new: NewAccount, credential_status: CredentialStatus
    ) -> Facts:
        account_id, audit_id = await DatabaseClock(self.pool).new_ids(2)
        after = {
            "organization_id": str(organization_id),
            "account_id": str(account_id),
            **asdict(new),
            "credential_status": credential_status,
        }
        async with transaction(self.pool, Role.OPERATOR, organization_id) as connection:
            await self._lock_organization(connection, organization_id)
            await open_account(
                connection, OrganizationId(organization_id), AccountId(account_id), new, credential_status
            )
            change = RecordedChange(
                organization_id=organization_id,
                account_id=account_id,
                principal=("OPERATOR", self.operator),
                audit_id=audit_id,
                operation="accounts create",
                object_id=account_id,
                before=None,
                after=after,
                event_type="account.created",
                payload=account_event_payload(organization_id, account_id, 1, changed := changed_fields(None, after)),
                changed=changed,
            )
            await account_changes.queue_and_audit(connection, change)
        return after

    async def list_accounts(self, organization_id: UUID | None, *, halted_only: bool) -> list[Facts]:
        """Accounts of all organizations or of one, the oldest first, with the reason of an automatic halt."""
        async with transaction(self.pool, Role.OPERATOR, organization_id) as connection:
            if organization_id is not None:
                await self._lock_organization(connection, organization_id)
            rows = _queries.list_accounts_across_organizations(
                connection, organization_id=organization_id, halted_only=halted_only, row_limit=LISTED_MAX
            )
            return [facts_of(row) async for row in rows]

    async def resume_account(self, account_id: UUID, because: str) -> Facts:
        """End the automatic halt of an account. Raises OperatorError if it is not halted."""
        (audit_id,) = await DatabaseClock(self.pool).new_ids(1)
        find = _queries.find_organization_of_account_across_organizations
        organization_id = await self._find(find, account_id=account_id)
        if organization_id is None:
            raise OperatorError(f"There is no account {account_id}: see `openbell-server accounts list`.")
        where = {"organization_id": organization_id, "account_id": account_id}
        async with transaction(self.pool, Role.OPERATOR, organization_id) as connection:
            before = facts_of(await _queries.lock_halt(connection, **where))
            if before["halt_code"] is None:
                raise OperatorError(f"Account {account_id} is not halted: there is nothing to resume.")
            await _queries.resume_account(connection, **where)
            after = facts_of(await _queries.lock_halt(connection, **where))
            audited = {**after, "because": because}
            await self._audit(connection, organization_id, audit_id, "accounts resume", account_id, before, audited)
        return after

    async def create_api_key(
        self,
        organization_id: UUID,
        presented: PresentedKey,
        *,
        name: str,
        environment: Environment,
        permissions: Iterable[str],
        expires_at: datetime | None,
        own_orders_only: bool = False,
    ) -> Facts:
        """Store a key's hash; the key itself is not stored."""
        api_key_id, audit_id = await DatabaseClock(self.pool).new_ids(2)
        async with transaction(self.pool, Role.OPERATOR, organization_id) as connection:
            await self._lock_organization(connection, organization_id)
            await add_api_key(
                connection,
                OrganizationId(organization_id),
                api_key_id,
                presented,
                name=name,
                environment=environment,
                permissions=permissions,
                expires_at=expires_at,
                own_orders_only=own_orders_only,
            )
            after = await self._lock_api_key(connection, organization_id, presented.key_id)
            if after.pop("is_expired"):
                raise OperatorError(f"The key would already be expired at {expires_at}: choose a later time.")
            await self._audit(connection, organization_id, audit_id, "keys create", api_key_id, None, after)
        return after

    async def list_api_keys(self, organization_id: UUID) -> list[Facts]:
        async with transaction(self.pool, Role.OPERATOR, organization_id) as connection:
            await self._lock_organization(connection, organization_id)
            rows = _queries.list_api_keys(connection, organization_id=organization_id, row_limit=LISTED_MAX)
            return [facts_of(row) async for row in rows]

    async def disable_api_key(self, key_id: str, *, disabled: bool) -> Facts:
        operation = "keys disable" if disabled else "keys enable"
        return await self._change_api_key(key_id, operation, disabled=disabled)

    async def revoke_api_key(self, key_id: str) -> Facts:
        """Cannot be undone."""
        return await self._change_api_key(key_id, "keys revoke", revoked=True)

    async def disable_user(self, provider: str, subject: str, reason: str, organization_id: UUID | None) -> Facts:
        """Reject access tokens of this user."""
        return await self._change_user(provider, subject, organization_id, reason)

    async def enable_user(self, provider: str, subject: str, organization_id: UUID | None) -> Facts:
        """Accept the user's access tokens again."""
        return await self._change_user(provider, subject, organization_id, None)

    async def _change_user(
        self, provider: str, subject: str, organization_id: UUID | None, reason: str | None
    ) -> Facts:
        """Returns the user afterwards; without an organization, the change is in the platform's audit log."""
        (audit_id,) = await DatabaseClock(self.pool).new_ids(1)
        who = {"provider": provider, "subject": subject}
        log = PLATFORM_ID if organization_id is None else organization_id
        async with transaction(self.pool, Role.OPERATOR, log) as connection:
            if organization_id is not None:
                await self._lock_organization(connection, organization_id)
            before = await _user(connection, who)
            if before["disabled"] == (reason is not None):
                return before
            if reason is None:
                await _queries.allow_user_across_organizations(connection, **who)
            else:
                await _queries.deny_user_across_organizations(connection, **who, reason=reason)
            after = await _user(connection, who)
            operation = "users enable" if reason is None else "users disable"
            await self._audit(connection, log, audit_id, operation, subject, before, after)
            return after

    async def _change_organization(
        self, organization_id: UUID, operation: str, change: Callable[[Facts], Facts]
    ) -> Facts:
        """Returns the organization afterwards; without a change, nothing is written."""
        (audit_id,) = await DatabaseClock(self.pool).new_ids(1)
        async with transaction(self.pool, Role.OPERATOR, organization_id) as connection:
            before = await self._lock_organization(connection, organization_id)
            wanted = before | change(before)
            if wanted == before:
                return before
            row = await _queries.change_organization(
                connection,
                organization_id=organization_id,
                disabled=wanted["disabled"],
                internal=wanted["internal"],
                entitlements=wanted["entitlements"],
                paper_enforcement=wanted["paper_enforcement"],
            )
            after = facts_of(row)
            await _rules.shut_doors(connection, whose=organization_id)
            # After the doors: an open one may wait to append to this log.
            await self._audit(connection, organization_id, audit_id, operation, organization_id, before, after)
            return after

    async def _change_api_key(
        self, key_id: str, operation: str, *, disabled: bool | None = None, revoked: bool = False
    ) -> Facts:
        (audit_id,) = await DatabaseClock(self.pool).new_ids(1)
        organization_id = await self._find(_queries.find_organization_of_key_across_organizations, key_id=key_id)
        if organization_id is None:
            # The argument may be a whole key with its secret, so the message does not repeat it.
            raise OperatorError(
                "There is no key with this id. It is the 12 characters after `ob_paper_0_` or `ob_live_0_`:"
                " see `openbell-server keys list ORGANIZATION`."
            )
        async with transaction(self.pool, Role.OPERATOR, organization_id) as connection:
            before = await self._lock_api_key(connection, organization_id, key_id)
            del before["is_expired"]
            if before["revoked_at"] is not None and disabled is not None:
                raise OperatorError("The key is revoked, which cannot be undone: create another with `keys create`.")
            if revoked == (before["revoked_at"] is not None) and disabled in (None, before["disabled"]):
                return before
            row = await _queries.change_api_key(
                connection,
                organization_id=organization_id,
                key_id=key_id,
                disabled=before["disabled"] if disabled is None else disabled,
                revoked=revoked,
            )
            after = facts_of(row)
            await self._audit(connection, organization_id, audit_id, operation, before["api_key_id"], before, after)
            return after

    async def _lock_api_key(self, connection: Connection, organization_id: UUID, key_id: str) -> Facts:
        return facts_of(await _queries.lock_api_key(connection, organization_id=organization_id, key_id=key_id))


async def _user(connection: Connection, who: dict[str, str]) -> Facts:
    row = await _queries.find_denied_user_across_organizations(connection, **who)
    facts = {**who, "reason": None, "denied_at": None} if row is None else facts_of(row)
    return facts | {"disabled": row is not None}
