"""Who is calling, and what they may do."""

from dataclasses import dataclass
from typing import Final

from openbell_server.domain.accounts import Environment, TradingAccount
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import OrganizationId

INTENT_EDIT: Final = "intent:edit"
INTENT_READ: Final = "intent:read"
EVENT_READ: Final = "event:read"
PERMISSIONS: Final = frozenset({INTENT_EDIT, INTENT_READ, EVENT_READ})


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated caller."""

    kind: str
    id: str
    organization_id: OrganizationId
    environment: Environment
    permissions: frozenset[str]


def require(caller: Principal, *any_of: str) -> None:
    """Refuse a caller that holds none of the permissions."""
    if caller.permissions.isdisjoint(any_of):
        raise Problem("permission_denied", f"this needs the permission {' or '.join(any_of)}")


def require_environment(caller: Principal, account: TradingAccount) -> None:
    """Refuse a key of the other environment, both ways."""
    if caller.environment is not account.environment:
        raise Problem(
            "environment_mismatch",
            f"the key is for {caller.environment} accounts, this account is {account.environment}",
        )
