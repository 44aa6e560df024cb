"""Accounts with credentials in a vault of their own, and executors that sign them in."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID, uuid4

from openbell_server.adapters.postgres.access.credentials import PostgresCredentialStore
from openbell_server.adapters.postgres.access.vault_objects import PostgresVaultObjects
from openbell_server.adapters.postgres.connection import DatabaseClock, Pool
from openbell_server.adapters.postgres.execution.sign_ins import PostgresSessionStore
from openbell_server.adapters.postgres.execution.slot_leases import PostgresLeaseStore
from openbell_server.adapters.vault.envelope import EnvelopeOpener, EnvelopeSealer
from openbell_server.adapters.vault.key_file import KeyFile, create_key_files
from openbell_server.application.execution.broker_sign_ins import BrokerSignIns
from openbell_server.application.execution.slot_leases import SlotLeases
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.access.credentials import (
    CredentialStatus,
    NewCredential,
    SecretPlace,
    Secrets,
    SignedIn,
    SignInRefused,
)
from openbell_server.domain.identifiers import AccountId
from support.brokers.execution_harness import Clock
from support.brokers.scripted_broker import Harness, ScriptedBroker, until_so
from support.builders.tenant import Tenant, a_tenant, new_id
from support.rest.rest_api import RecordedHints


@dataclass(frozen=True, slots=True)
class Vault:
    """Both halves of a key, and what is sealed with it."""

    sealer: EnvelopeSealer
    opener: EnvelopeOpener

    async def put(self, tenant: Tenant, pool: Pool, key_id: str) -> None:
        """Give the account a credential, or another one."""
        account, store = tenant.account, PostgresCredentialStore(pool, DatabaseClock(pool))
        standing = await store.read(account.organization_id, account.id)
        credential_id = standing.credential.id if standing.credential else new_id()
        place = SecretPlace(account.organization_id, account.id, credential_id, standing.versions + 1)
        sealed = await self.sealer.seal(place, Secrets({"key_id": key_id, "secret": "s"}))
        new = NewCredential(broker="paper", kind="paper_key", hint="***", expires_at=None)
        assert await store.save(tenant.principal, place, new, sealed) is not None


async def remove(tenant: Tenant, pool: Pool, status: CredentialStatus = CredentialStatus.NOT_REQUIRED) -> None:
    store = PostgresCredentialStore(pool, DatabaseClock(pool))
    await store.remove(tenant.principal, tenant.account.id, lambda _: None, status)


def a_vault(folder: Path) -> Vault:
    private, public = folder / "private.json", folder / "public.json"
    create_key_files(private, public)
    return Vault(EnvelopeSealer(KeyFile(public)), EnvelopeOpener(KeyFile(private)))


@dataclass(slots=True)
class Executor:
    """The part of an executor that keeps accounts signed in."""

    pool: Pool
    vault: Vault
    broker: ScriptedBroker
    slots: SlotLeases
    clock: Clock
    hints: RecordedHints = field(default_factory=RecordedHints)
    heard: list[AccountId] = field(default_factory=list)
    sessions: BrokerSignIns = field(init=False)

    def __post_init__(self) -> None:
        """Make them around the same broker."""
        self.sessions = BrokerSignIns(
            PostgresSessionStore(self.pool, DatabaseClock(self.pool)),
            PostgresVaultObjects(self.pool),
            self.vault.opener,
            {"paper": self.broker},
            self.slots,
            self.hints,
            self.clock,
            [self.heard.append],
        )

    async def refresh(self, account: BrokerAccount) -> None:
        """Hear of a change, and be done with it."""
        times = len(self.heard)
        self.sessions.notify(account)
        await until_so(lambda: len(self.heard) > times)


async def an_executor(pool: Pool, vault: Vault, broker: ScriptedBroker | None = None) -> Executor:
    """With leases on every slot that is free, which last as long as its clock stands."""
    clock = Clock()
    slots = SlotLeases(PostgresLeaseStore(pool), uuid4(), clock)
    await slots.renew()
    return Executor(pool, vault, broker or ScriptedBroker(), slots, clock)


async def standing_of(pool: Pool, account_id: UUID) -> Mapping[str, object]:
    row = await pool.fetchrow(
        "select a.credential_status as status, a.external_account_id, a.version,"
        " c.answered_at >= c.asked_at as answered, c.verified_at is not null as verified, c.expires_at, c.refusal_code"
        " from accounts a left join credentials c using (account_id) where a.account_id = $1",
        account_id,
    )
    assert row is not None
    return dict(row)


async def a_harness(executor: Executor) -> Harness:
    return Harness(
        executor.pool,
        await a_tenant(executor.pool),
        executor.broker,
        clock=executor.clock,
        hints=executor.hints,
        fence=executor.sessions,
        sign_ins=executor.sessions,
    )


def says(broker: ScriptedBroker, answer: SignedIn | SignInRefused) -> None:
    async def admit(key_id: str) -> SignedIn | SignInRefused:
        del key_id
        return answer

    broker.admit = admit


def hangs(broker: ScriptedBroker, *key_ids: str) -> asyncio.Event:
    """Sign-ins with these keys are answered once the gate is open; none until then."""
    gate = asyncio.Event()

    async def admit(key_id: str) -> SignedIn | SignInRefused:
        if key_id in key_ids:
            await gate.wait()
        return SignedIn()

    broker.admit = admit
    return gate
