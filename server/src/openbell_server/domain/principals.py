"""Who is calling: what a credential says, and a caller that was admitted to an operation."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from openbell_server.domain.accounts import Environment
from openbell_server.domain.identifiers import OrganizationId

INTENT_EDIT: Final = "intent:edit"
INTENT_READ: Final = "intent:read"
EVENT_READ: Final = "event:read"
CONTROL_READ: Final = "control:read"
ACCOUNT_READ: Final = "account:read"
ACCOUNT_EDIT: Final = "account:edit"
CREDENTIAL_READ: Final = "credential:read"
CREDENTIAL_EDIT: Final = "credential:edit"
WEBHOOK_READ: Final = "webhook:read"
WEBHOOK_EDIT: Final = "webhook:edit"
# Of service accounts only: no key gives what it is judged by.
REFERENCE_EDIT: Final = "reference:edit"
CONTROL_EDITS: Final = {environment: f"control:edit:{environment}" for environment in Environment}
# What an API key can hold. Those that no operation asks for yet are not given out.
PERMISSIONS: Final = frozenset(
    {INTENT_EDIT, INTENT_READ, EVENT_READ, ACCOUNT_READ, ACCOUNT_EDIT, CREDENTIAL_EDIT}
    | {CONTROL_READ, *CONTROL_EDITS.values(), WEBHOOK_READ, WEBHOOK_EDIT}
)


class PrincipalKind(StrEnum):
    """What kind of caller a credential speaks for."""

    API_KEY = "API_KEY"
    USER = "USER"
    SERVICE = "SERVICE"
    # The platform itself, by a control that somebody set; no credential speaks for it.
    SYSTEM = "SYSTEM"
    # Who operates the platform, by its own commands; no credential speaks for them either.
    OPERATOR = "OPERATOR"


class Role(StrEnum):
    """What a user is within the organization."""

    ADMIN = "admin"
    MEMBER = "member"
    READ_ONLY = "read_only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """What a good credential says about who sent it; nobody has decided yet what the caller may do."""

    kind: PrincipalKind
    id: str
    # None: the token names no organization, or one that is not known here.
    organization_id: OrganizationId | None = None
    # The organization in the words of the identity provider, and that provider.
    external_organization_id: str | None = None
    provider: str | None = None
    # Whether the organization is the operator's own.
    internal: bool = False
    environment: Environment | None = None
    # A key's permissions, or a service account's scopes.
    permissions: frozenset[str] = frozenset()
    role: Role | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A caller that was admitted to an operation, in one organization."""

    kind: PrincipalKind
    id: str
    organization_id: OrganizationId
    # Only a key is bound to one.
    environment: Environment | None
    permissions: frozenset[str]


def operator_principal(name: str, organization_id: OrganizationId) -> Principal:
    """An operator at work on an organization, or on the platform as if it were one."""
    return Principal(
        kind=PrincipalKind.OPERATOR,
        id=name,
        organization_id=organization_id,
        environment=None,
        permissions=frozenset(),
    )
