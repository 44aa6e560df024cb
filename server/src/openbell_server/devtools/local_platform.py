"""Starts a whole platform on this machine: services, databases, schema, an organization, every process."""

import asyncio
import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self
from uuid import UUID

from openbell_server.adapters.postgres.connection import open_pool
from openbell_server.adapters.postgres.migrate import allow_logins, logins_of, migrate
from openbell_server.adapters.postgres.operators.operators import PostgresOperatorStore
from openbell_server.brokers.paper.wire import OPERATOR_HEADER
from openbell_server.devtools.background_services import create_databases
from openbell_server.devtools.kept_folder import KeptFolder
from openbell_server.devtools.local_services import LocalServices
from openbell_server.devtools.stack import LOGINS, PROCESSES, Stack
from openbell_server.domain.access import api_keys
from openbell_server.domain.access.accounts import CONTROLS_PREMIUM, TRADING_LIVE, Environment, NewAccount
from openbell_server.domain.access.credentials import CredentialStatus
from openbell_server.domain.access.principals import CONTROL_LOOSEN, PERMISSIONS
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.processes.vault import FILE
from openbell_server.settings import Settings

_NO_LIMITS: Final = {
    **{f"OPENBELL_{name.upper()}": "1000000" for name in Settings.model_fields if name.startswith(("limit_", "cap_"))},
    "OPENBELL_PAPER_SHORTING": "true",
    "OPENBELL_PAPER_ANY_TICK": "true",
    "OPENBELL_PAPER_ANY_SYMBOL": "true",
}

# The organizations' ids at the identity provider, which is the default of the settings.
IDENTITY_PROVIDER = "workos"
ACME = "org_acme"
OPERATIONS = "org_operations"


@dataclass(frozen=True, slots=True)
class Seeded:
    """Data for a first intent; the key is not shown in repr."""

    organization_id: OrganizationId
    internal_organization_id: OrganizationId
    account_ids: list[AccountId]
    api_key: str = field(repr=False)

    def as_text(self) -> list[str]:
        return [self.api_key, *map(str, (self.organization_id, self.internal_organization_id, *self.account_ids))]

    @classmethod
    def from_text(cls, texts: Sequence[str]) -> Self:
        organization, internal, *accounts = map(UUID, texts[1:])
        return cls(OrganizationId(organization), OrganizationId(internal), list(map(AccountId, accounts)), texts[0])


class LocalPlatform:
    """Starts everything in order, and stops it in reverse.

    settings are OPENBELL_* variables that override the defaults. accounts paper accounts are opened at brokers in turn.
    Without limits one key can submit the load of a demo or a proof, and the paper broker takes every valid order.
    With a kept folder it goes on where the last platform of that folder ended.
    """

    def __init__(
        self,
        log_folder: Path,
        settings: Mapping[str, str] | None = None,
        accounts: int = 1,
        revision: str = "head",
        *,
        brokers: Sequence[str] = ("paper",),
        with_limits: bool = False,
        with_redis: bool = False,
        processes: Sequence[str] = PROCESSES,
        kept: KeptFolder | None = None,
    ) -> None:
        self.services = LocalServices(with_redis=with_redis, kept=kept.path if kept else None)
        self._kept = kept
        self._log_folder = log_folder
        self._settings = {**({} if with_limits else _NO_LIMITS), **(settings or {})}
        self._accounts = [broker for _, broker in zip(range(accounts), itertools.cycle(brokers), strict=False)]
        self._revision = revision
        self._processes = processes

    def start(self) -> None:
        self.services.start()
        try:
            create_databases(self.services.postgres.url())
            private, public = _vault_keys(self._kept.path if self._kept else self.services.folder)
            self.stack = Stack(
                self.services,
                {
                    "OPENBELL_VAULT_KEY": f"{FILE}{public}",
                    **(self._kept.settings if self._kept else {}),
                    **self._settings,
                },
                self._log_folder,
                executor_environment={"OPENBELL_VAULT_KEY": f"{FILE}{private}"},
                processes=self._processes,
            )
            migrate(self.owner_url, self._revision)
            allow_logins(self.owner_url, logins_of(LOGINS))
            self._seed()
            self.stack.start_all()
        except BaseException:
            self.stop()
            raise

    def _seed(self) -> None:
        if self._kept and self._kept.seeded:
            self.seeded = Seeded.from_text(self._kept.seeded)
        else:
            self.seeded = asyncio.run(_seed(self.owner_url, self._accounts, IDENTITY_PROVIDER))
        if self._kept:
            self._kept.save(self.seeded.as_text())

    def stop(self) -> None:
        if hasattr(self, "stack"):
            self.stack.stop_all()
        self.services.stop()

    @property
    def owner_url(self) -> str:
        """The database for its owner; the processes use a login with fewer rights."""
        return self.services.postgres.url("openbell")

    def client_environment(self) -> dict[str, str]:
        """Settings of the client library and the command line."""
        settings = self.stack.environment
        return {
            "OPENBELL_URL": f"http://127.0.0.1:{settings['OPENBELL_API_PORT']}",
            "OPENBELL_STREAM": f"127.0.0.1:{settings['OPENBELL_STREAM_PORT']}",
            "OPENBELL_ACCOUNT": str(self.seeded.account_ids[0]),
            "OPENBELL_API_KEY": self.seeded.api_key,
        }

    @property
    def paper_url(self) -> str:
        return f"http://127.0.0.1:{self.stack.environment['OPENBELL_PAPER_PORT']}"

    @property
    def paper_operator(self) -> dict[str, str]:
        """The header that the paper broker's operator routes need."""
        return {OPERATOR_HEADER: self.stack.environment["OPENBELL_PAPER_SECRET"]}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _vault_keys(folder: Path) -> tuple[Path, Path]:
    """A private and a public key file, in a folder with mode 700."""
    from openbell_server.adapters.vault.key_file import create_key_files

    kept = folder / "vault"
    private, public = kept / "private.json", kept / "public.json"
    if not kept.exists():
        kept.mkdir(mode=0o700)
        create_key_files(private, public)
    return private, public


async def _seed(url: str, brokers: Sequence[str], provider: str) -> Seeded:
    """Create two organizations, one internal, a paper account for each broker, and a key with all permissions."""
    key, presented = api_keys.mint(Environment.PAPER, os.urandom(api_keys.ENTROPY_BYTES))
    async with await open_pool(url) as pool:
        # Not operator_store, which needs the newest schema.
        store = PostgresOperatorStore(pool, "dev")
        acme, internal = [
            UUID(
                (
                    await store.create_organization(
                        name=name,
                        external_id=external_id,
                        provider=provider,
                        entitlements=[TRADING_LIVE, CONTROLS_PREMIUM],
                    )
                )["organization_id"]
            )
            for external_id, name in ((ACME, "Acme Trading"), (OPERATIONS, "Operations"))
        ]
        await store.set_internal(internal, internal=True)
        accounts = [
            await store.create_account(
                acme,
                NewAccount(name=f"Paper {number}", broker=broker, environment=Environment.PAPER),
                CredentialStatus.NOT_REQUIRED,
            )
            for number, broker in enumerate(brokers, 1)
        ]
        await store.create_api_key(
            acme,
            presented,
            name="dev",
            environment=Environment.PAPER,
            permissions=PERMISSIONS - {CONTROL_LOOSEN},
            expires_at=None,
        )
    return Seeded.from_text([key, str(acme), str(internal), *(account["account_id"] for account in accounts)])
