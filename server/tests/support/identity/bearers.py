"""Callers with access tokens, as headers: users and service accounts of the tests' identity provider."""

from typing import Any

from openbell_server.domain.identifiers import OrganizationId
from support.builders.tenant import Tenant
from support.identity.identity_provider import MACHINES, PEOPLE, good_token

Headers = dict[str, str]


def external_id_of(organization_id: OrganizationId) -> str:
    """What the identity provider calls an organization of the builders'."""
    return f"org_{organization_id.hex}"


def as_user(tenant: Tenant, role: str | None = "admin", **claims: Any) -> Headers:
    """A user of the tenant's organization."""
    said = {"org_id": external_id_of(tenant.account.organization_id), "role": role, **claims}
    return {"authorization": f"Bearer {good_token('EdDSA', PEOPLE, **said)}"}


def as_user_without_organization() -> Headers:
    return {"authorization": f"Bearer {good_token('EdDSA', PEOPLE, org_id=None, role='admin')}"}


def as_service(*scopes: str, tenant: Tenant | None = None) -> Headers:
    """A service account; it acts for the tenant's organization if one is given."""
    headers = {"authorization": f"Bearer {good_token('EdDSA', MACHINES, org_id=None, scope=' '.join(scopes))}"}
    if tenant is not None:
        headers["x-organization-id"] = str(tenant.account.organization_id)
    return headers
