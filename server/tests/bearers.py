"""Callers with access tokens, as headers: users and service accounts of the tests' identity provider."""

from builders import Tenant
from identity_provider import MACHINES, PEOPLE, good_token
from openbell_server.domain.identifiers import OrganizationId

Headers = dict[str, str]


def external_id_of(organization_id: OrganizationId) -> str:
    """What the identity provider calls an organization of the builders'."""
    return f"org_{organization_id.hex}"


def user(tenant: Tenant, role: str | None = "admin", subject: str = "auth|7") -> Headers:
    """A user of the tenant's organization."""
    organization = external_id_of(tenant.account.organization_id)
    token = good_token("EdDSA", PEOPLE, sub=subject, org_id=organization, role=role)
    return {"authorization": f"Bearer {token}"}


def user_without_organization() -> Headers:
    return {"authorization": f"Bearer {good_token('EdDSA', PEOPLE, org_id=None, role='admin')}"}


def service(*scopes: str, tenant: Tenant | None = None) -> Headers:
    """A service account; it acts for the tenant's organization if one is given."""
    headers = {"authorization": f"Bearer {good_token('EdDSA', MACHINES, sub='machine', scope=' '.join(scopes))}"}
    if tenant is not None:
        headers["x-organization-id"] = str(tenant.account.organization_id)
    return headers
