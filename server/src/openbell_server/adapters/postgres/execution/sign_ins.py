"""Reads credentials for signing in at brokers, and records the brokers' answers and the state of their feeds."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final
from uuid import UUID

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.access import account_changes
from openbell_server.adapters.postgres.access.account_changes import RecordedChange
from openbell_server.adapters.postgres.audit_log import Facts
from openbell_server.adapters.postgres.connection import DatabaseClock, PostgresStore, Role, transaction
from openbell_server.application.execution.ports import StoredCredential
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import (
    CredentialStatus,
    SecretPlace,
    SignedIn,
    SignInRefused,
    status_after,
)
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.action_lifecycle import Reason

ACCOUNTS_MAX: Final = 100_000
ASKED_AT_ONCE_MAX: Final = 1_000
# The principal in the audit log: the broker decided, whoever requested the verification.
_PRINCIPAL: Final = ("SYSTEM", "executor")
# The columns that an answer can change.
_FACTS: Final = ("credential_status", "external_account_id", "expires_at")
_queries = named_queries.load("sign_ins")
_feed_queries = named_queries.load("broker_feeds")


@dataclass(slots=True)
class _BrokerLookUp:
    """Brokers to look up with the next statement."""

    asked: set[str] = field(default_factory=set)
    reading: asyncio.Future[set[str]] | None = None


@dataclass(frozen=True, slots=True)
class PostgresSessionStore(PostgresStore):
    """Implements SessionStore."""

    role: ClassVar[Role] = Role.EXECUTION

    ids: DatabaseClock
    _brokers: _BrokerLookUp = field(default_factory=_BrokerLookUp, kw_only=True)

    async def credential_of(self, account: BrokerAccount) -> StoredCredential | None:
        row = await self._one(_queries.credential_of, account.organization_id, account.account_id)
        if row is None:
            return None
        place = SecretPlace(account.organization_id, account.account_id, row["credential_id"], row["version"])
        return StoredCredential(place, Environment(row["environment"]), row["read_at"], row["is_asked"])

    async def record_answer(
        self, credential: StoredCredential, answer: SignedIn | SignInRefused
    ) -> CredentialStatus | None:
        place = credential.place
        where = {"organization_id": place.organization_id, "account_id": place.account_id}
        # Before the transaction: a task that holds a connection must not wait for a second one.
        (audit_id,) = await self.ids.new_ids(1)
        async with transaction(self.pool, self.role, place.organization_id) as connection:
            await account_changes.lock_account(connection, **where)
            row = await _queries.credential_to_answer(connection, **where)
            if row is None or (row["credential_id"], row["version"]) != (place.credential_id, place.version):
                return None
            after, code = _answered(row, answer)
            status: CredentialStatus = after["credential_status"]
            changed = [name for name in _FACTS if after[name] != row[name]]
            if not changed and not row["is_asked"]:
                return status
            await _queries.save_answer(
                connection,
                **where,
                read_at=credential.read_at,
                is_valid=status is CredentialStatus.VALID,
                refusal_code=code,
                expires_at=after["expires_at"],
            )
            if changed:
                await _queries.save_standing(
                    connection, **where, status=status, external_account_id=after["external_account_id"]
                )
                before = {name: row[name] for name in _FACTS}
                change = _change(place, audit_id, _facts(before), _facts(after), changed, _reason(code, answer))
                await account_changes.record(connection, change)
            return status

    async def accounts_with_credentials_across_organizations(
        self, broker: str, slots: Collection[int]
    ) -> list[BrokerAccount]:
        query = _queries.accounts_with_credentials_across_organizations
        return await self._accounts(query, slots, broker=broker, row_limit=ACCOUNTS_MAX)

    async def accounts_asked_across_organizations(self, slots: Collection[int]) -> list[BrokerAccount]:
        query = _queries.accounts_asked_across_organizations
        return await self._accounts(query, slots, row_limit=ASKED_AT_ONCE_MAX)

    async def has_accounts_across_organizations(self, broker: str) -> bool:
        """Concurrent callers share one statement."""
        looking = self._brokers.reading
        if looking is None:
            looking = self._brokers.reading = asyncio.ensure_future(self._used_brokers())
        self._brokers.asked.add(broker)
        # Shielded: if one caller is cancelled, the others still get the result.
        return broker in await asyncio.shield(looking)

    async def _used_brokers(self) -> set[str]:
        # This task starts in the next turn of the event loop, so the statement is for every look-up of this turn.
        asked, self._brokers.asked, self._brokers.reading = self._brokers.asked, set(), None
        used = _feed_queries.used_brokers_across_organizations
        return {row["broker"] for row in await self._rows_across(Role.EXECUTOR, used, brokers=sorted(asked))}

    async def report_feed(
        self,
        executor_id: UUID,
        broker: str,
        *,
        connected: bool,
        compared: Collection[int],
        signing_in: Collection[AccountId],
        mute: Collection[AccountId] | None = None,
    ) -> None:
        """Record an executor's connection to a broker, from which the session states of accounts are derived.

        `mute` has the accounts whose feed did not report an expected event; None leaves them as they are.
        """
        async with transaction(self.pool, Role.EXECUTOR) as connection:
            await _feed_queries.report_feed(
                connection,
                executor_id=executor_id,
                broker=broker,
                connected=connected,
                compared=sorted(compared),
                signing_in=list(signing_in),
            )
            if mute is not None:
                await _feed_queries.report_silent_accounts(
                    connection, executor_id=executor_id, broker=broker, mute=list(mute)
                )

    async def _accounts(
        self, query: Callable[..., Any], slots: Collection[int], **values: object
    ) -> list[BrokerAccount]:
        rows = await self._rows_across(Role.EXECUTOR, query, slots=list(slots), **values)
        return [BrokerAccount(**row) for row in rows]


def _answered(row: asyncpg.Record, answer: SignedIn | SignInRefused) -> tuple[dict[str, Any], str | None]:
    """The new values after the answer, and the reason code if it was refused."""
    external_account_id, expires_at = row["external_account_id"], row["expires_at"]
    if isinstance(answer, SignedIn):
        expires_at = answer.expires_at or expires_at
    is_past = expires_at is not None and expires_at <= row["now"]
    status, code = status_after(answer, external_account_id, is_past=is_past)
    if isinstance(answer, SignedIn) and status is CredentialStatus.VALID:
        external_account_id = external_account_id or answer.external_account_id
    return dict(zip(_FACTS, (status, external_account_id, expires_at), strict=True)), code


def _reason(code: str | None, answer: SignedIn | SignInRefused) -> Reason | None:
    if code is None:
        return None
    if isinstance(answer, SignInRefused):
        return Reason(code, answer.broker_code, answer.broker_text)
    return Reason(code)


def _facts(facts: dict[str, Any]) -> Facts:
    return {**facts, "expires_at": facts["expires_at"] and facts["expires_at"].isoformat()}


def _change(
    place: SecretPlace, audit_id: UUID, before: Facts, after: Facts, changed: Sequence[str], reason: Reason | None
) -> RecordedChange:
    return RecordedChange(
        organization_id=place.organization_id,
        account_id=place.account_id,
        principal=_PRINCIPAL,
        audit_id=audit_id,
        operation="credentials answer",
        object_id=place.credential_id,
        before=before,
        after=after,
        event_type="credential.updated",
        payload={
            "credential_id": str(place.credential_id),
            "account_id": str(place.account_id),
            "organization_id": str(place.organization_id),
            "version": place.version,
        },
        changed=changed,
        reason=reason,
    )
