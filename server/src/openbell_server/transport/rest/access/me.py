"""The route that shows a caller who it is and what it may do."""

from collections.abc import Awaitable, Callable
from uuid import UUID

from litestar import get
from litestar.handlers import HTTPRouteHandler
from msgspec import UNSET, Struct, UnsetType

from openbell_server.application.controls.ports.rules import OrganizationStanding
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.authorization import Operation, allowed_operations
from openbell_server.domain.access.principals import PrincipalKind
from openbell_server.domain.identifiers import OrganizationId
from openbell_server.transport.rest.entry import AnyRequest, Enter

FindStanding = Callable[[OrganizationId], Awaitable[OrganizationStanding | None]]


class OwnOrganizationBody(Struct, frozen=True):
    """The caller's organization."""

    id: UUID
    name: str
    disabled: bool
    entitlements: list[str]


class MeBody(Struct, frozen=True):
    """The owner of the credential."""

    principal_type: PrincipalKind
    principal_id: str
    # As x-openbell-operation in the OpenAPI document.
    operations: list[str]
    # Of an API key; of a service account its scopes.
    permissions: list[str]
    own_orders_only: bool
    # Of an API key that is limited to these accounts.
    account_ids: list[UUID] | UnsetType = UNSET
    # Absent for a user whose organization is not known here, and for a service account, which names one in a header.
    organization: OwnOrganizationBody | UnsetType = UNSET
    # Of a user, at the identity provider.
    role: str | UnsetType = UNSET
    environment: Environment | UnsetType = UNSET


def me_route(enter: Enter, find_standing: FindStanding) -> HTTPRouteHandler:
    @get("/v1/me")
    async def show_me(request: AnyRequest) -> MeBody:
        caller = await enter.anywhere(request, Operation.READ_ME)
        return MeBody(
            principal_type=caller.kind,
            principal_id=caller.id,
            operations=[operation.name for operation in allowed_operations(caller)],
            permissions=sorted(caller.permissions),
            own_orders_only=caller.own_orders_only,
            account_ids=UNSET if caller.account_ids is None else sorted(caller.account_ids),
            organization=await organization(caller.organization_id),
            role=caller.role or UNSET,
            environment=caller.environment or UNSET,
        )

    async def organization(organization_id: OrganizationId | None) -> OwnOrganizationBody | UnsetType:
        standing = None if organization_id is None else await find_standing(organization_id)
        if organization_id is None or standing is None:
            return UNSET
        return OwnOrganizationBody(organization_id, standing.name, standing.disabled, sorted(standing.entitlements))

    return show_me
