"""Callers: what a credential contains, and a caller admitted to an operation."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.identifiers import AccountId, OrganizationId

INTENT_EDIT: Final = "intent:edit"
INTENT_READ: Final = "intent:read"
EVENT_READ: Final = "event:read"
CONTROL_READ: Final = "control:read"
# To undo or weaken a control; an admin gives it to a key.
CONTROL_LOOSEN: Final = "control:loosen"
ACCOUNT_READ: Final = "account:read"
ACCOUNT_EDIT: Final = "account:edit"
CREDENTIAL_READ: Final = "credential:read"
CREDENTIAL_EDIT: Final = "credential:edit"
WEBHOOK_READ: Final = "webhook:read"
WEBHOOK_EDIT: Final = "webhook:edit"
# For service accounts only: a key must not set the prices that its own commands are checked against.
REFERENCE_EDIT: Final = "reference:edit"
CONTROL_EDITS: Final = {environment: f"control:edit:{environment}" for environment in Environment}
# Permissions that an API key can have.
PERMISSIONS: Final = frozenset(
    {INTENT_EDIT, INTENT_READ, EVENT_READ, ACCOUNT_READ, ACCOUNT_EDIT, CREDENTIAL_EDIT}
    | {CONTROL_READ, CONTROL_LOOSEN, *CONTROL_EDITS.values(), WEBHOOK_READ, WEBHOOK_EDIT}
)


class PrincipalKind(StrEnum):
    """The kind of a caller."""

    API_KEY = "API_KEY"
    USER = "USER"
    SERVICE = "SERVICE"
    # The platform itself, by a control; it has no credential.
    SYSTEM = "SYSTEM"
    # An operator of the platform, by its command line; it has no credential.
    OPERATOR = "OPERATOR"


class Role(StrEnum):
    """The role of a user in the organization."""

    ADMIN = "admin"
    MEMBER = "member"
    READ_ONLY = "read_only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The owner of a valid credential, before authorization."""

    kind: PrincipalKind
    id: str
    # None: the token has no organization, or an unknown one.
    organization_id: OrganizationId | None = None
    # The identity provider's id of the organization, and that provider.
    external_organization_id: str | None = None
    provider: str | None = None
    # Whether the organization belongs to the operator.
    internal: bool = False
    environment: Environment | None = None
    # A key's permissions, or a service account's scopes.
    permissions: frozenset[str] = frozenset()
    # Of a key: it may cancel and replace only orders of intents that it created.
    own_orders_only: bool = False
    # Of a key: the only accounts that it may use; None: all of its environment.
    account_ids: frozenset[AccountId] | None = None
    role: Role | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A caller admitted to an operation, in one organization."""

    kind: PrincipalKind
    id: str
    organization_id: OrganizationId
    # Only a key is bound to an environment.
    environment: Environment | None
    permissions: frozenset[str]
    own_orders_only: bool = False
    account_ids: frozenset[AccountId] | None = None


def operator_principal(name: str, organization_id: OrganizationId) -> Principal:
    return Principal(
        kind=PrincipalKind.OPERATOR,
        id=name,
        organization_id=organization_id,
        environment=None,
        permissions=frozenset(),
    )
