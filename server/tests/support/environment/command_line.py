"""Runs the operator's commands on a database, and reads what the audit log says of them."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from typer.testing import CliRunner, Result

from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.cli import app
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.principals import PERMISSIONS, Principal, PrincipalKind
from openbell_server.domain.errors import OperatorError
from openbell_server.domain.identifiers import AccountId, OrganizationId
from support.builders.tenant import Tenant

ALL_PERMISSIONS = [word for permission in sorted(PERMISSIONS) for word in ("--permission", permission)]
KEY_OPTIONS = ["--environment", "paper", *ALL_PERMISSIONS]
ACCOUNT_OPTIONS = ["--name", "First", "--broker", "paper", "--environment", "paper"]


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Runs commands on one database, changes as Olga."""

    url: str
    # OPENBELL_* variables beside the database's.
    settings: Mapping[str, str] = field(default_factory=dict)

    async def run(self, *words: str) -> Result:
        environment = {"OPENBELL_DATABASE_URL": self.url, **self.settings}
        return await asyncio.to_thread(CliRunner().invoke, app, list(words), env=environment)

    async def say(self, *words: str) -> str:
        said = await self.run(*words)
        assert said.exit_code == 0, (said.output, said.exception)
        return said.output

    async def read(self, *words: str) -> dict[str, Any]:
        return dict(json.loads(await self.say(*words, "--json")))

    async def change(self, *words: str) -> dict[str, Any]:
        return await self.read(*words, "--as", "olga")

    async def refused(self, *words: str) -> str:
        error = (await self.run(*words)).exception
        assert isinstance(error, OperatorError), error
        return str(error)

    async def organization(self) -> str:
        return str((await self.change("organizations", "create", "Acme"))["organization_id"])

    async def tenant(self, pool: Pool) -> Tenant:
        """An organization with an account and a key, all made by commands."""
        organization = await self.organization()
        account = await self.change("accounts", "create", organization, *ACCOUNT_OPTIONS)
        key = await self.change("keys", "create", organization, *KEY_OPTIONS)
        organization_id = OrganizationId(UUID(organization))
        found = await PostgresOrganizationStore(pool).find_account(
            organization_id, AccountId(UUID(account["account_id"]))
        )
        assert found is not None
        caller = Principal(
            kind=PrincipalKind.API_KEY,
            id=key["api_key_id"],
            organization_id=organization_id,
            environment=Environment.PAPER,
            permissions=PERMISSIONS,
        )
        return Tenant(found, caller, key["key"])


async def audited(pool: Pool) -> list[tuple[str, str, Any, Any]]:
    """What the log says that Olga did: operation, object, before and after."""
    rows = await pool.fetch("select * from audit_log order by occurred_at")
    assert {(row["principal_type"], row["principal_id"]) for row in rows} <= {("OPERATOR", "olga")}
    return [
        (row["operation"], row["object_id"], row["before"] and json.loads(row["before"]), json.loads(row["after"]))
        for row in rows
    ]


async def last_change(pool: Pool) -> tuple[str, str, dict[str, Any]]:
    """Of the last entry: operation, object, and each fact that changed with what it was and is."""
    operation, object_id, before, after = (await audited(pool))[-1]
    return operation, object_id, {name: (before[name], after[name]) for name in after if before[name] != after[name]}
