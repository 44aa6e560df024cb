"""Runs statements in the operator's role, and writes the audit log in the operator's name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from openbell_server.adapters.postgres import audit_log, named_queries
from openbell_server.adapters.postgres.audit_log import Facts, facts_of
from openbell_server.adapters.postgres.connection import Connection, PostgresStore, Role
from openbell_server.domain.errors import OperatorError

_queries = named_queries.load("operators")


@dataclass(frozen=True, slots=True)
class OperatorStore(PostgresStore):
    """Acts for one operator."""

    operator: str

    async def _find(self, statement: Callable[..., Any], **values: object) -> Any:  # noqa: ANN401 - a row or a value
        return await self._one_across(Role.OPERATOR, statement, **values)

    async def _list(self, statement: Callable[..., Any], **values: object) -> list[Facts]:
        return [facts_of(row) for row in await self._rows_across(Role.OPERATOR, statement, **values)]

    async def _lock_organization(self, connection: Connection, organization_id: UUID) -> Facts:
        row = await _queries.lock_organization(connection, organization_id=organization_id)
        if row is None:
            raise OperatorError(
                f"There is no organization {organization_id}: see `openbell-server organizations list`."
            )
        return facts_of(row)

    async def _audit(
        self,
        connection: Connection,
        organization_id: UUID,
        audit_id: UUID,
        operation: str,
        object_id: UUID | str,
        before: Facts | None,
        after: Facts,
    ) -> None:
        principal = ("OPERATOR", self.operator)
        await audit_log.append(connection, organization_id, audit_id, principal, operation, object_id, before, after)
