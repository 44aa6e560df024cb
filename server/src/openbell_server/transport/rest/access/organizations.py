"""The route that finds an organization by the identity provider's id."""

from urllib.parse import unquote
from uuid import UUID

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import Struct

from openbell_server.application.access.find_organization import LookUpOrganization
from openbell_server.domain.access.authorization import Operation
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.wire_types import Moment, body_from


class OrganizationBody(Struct, frozen=True):
    """An organization."""

    id: UUID
    external_id: str
    name: str
    provider: str
    disabled: bool
    created_at: Moment


def organization_route(enter: Enter, look_up: LookUpOrganization) -> HTTPRouteHandler:
    @get("/v1/organizations/by-provider/{provider:str}/{provider_id:str}")
    async def find_organization(
        request: AnyRequest, provider: FromPath[str], provider_id: FromPath[str]
    ) -> OrganizationBody:
        caller = await enter.anywhere(request, Operation.LOOK_UP_ORGANIZATION)
        return body_from(OrganizationBody, await look_up(caller, unquote(provider), unquote(provider_id)))

    return find_organization
