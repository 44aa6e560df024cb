"""The routes to manage API keys, and to validate one."""

from typing import Annotated
from uuid import UUID

from litestar import Response, Router, delete, get, patch, post
from litestar.params import FromPath
from msgspec import UNSET, Meta, Struct, UnsetType

from openbell_server.application.access.authenticate import Authenticate
from openbell_server.application.access.manage_api_keys import ManageApiKeys
from openbell_server.application.access.rate_limits import LimitRates
from openbell_server.application.agents.create_agent_key import CreateAgentKey
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.api_keys import ApiKeyRecord, KeyChange, NewApiKey
from openbell_server.domain.access.authorization import Operation, require, require_own
from openbell_server.domain.access.principals import PERMISSIONS
from openbell_server.domain.agents.budget import AGENT_PERMISSIONS
from openbell_server.domain.errors import InvalidCommand, Problem
from openbell_server.domain.identifiers import AccountId
from openbell_server.transport.rest.agents.bodies import AccountIds, AgentBody
from openbell_server.transport.rest.entry import (
    AnyRequest,
    Enter,
    address_of,
    credential_of,
    organization_header_of,
    refuse_unknown_query,
)
from openbell_server.transport.rest.query_parameters import page_of
from openbell_server.transport.rest.strict_json import read_body
from openbell_server.transport.rest.wire_types import Moment, NameText, PageOf, body_from, in_utc

# The JSON schema describes this format; the domain checks it.
Permissions = Annotated[
    list[Annotated[str, Meta(extra_json_schema={"enum": sorted(PERMISSIONS)})]],
    Meta(
        description=(
            "edit permissions for controls exist per environment; a key may only have those of its own. Without "
            "control:loosen a key can tighten limits and not loosen them"
        ),
        extra_json_schema={"minItems": 1},
    ),
]


OwnOrdersOnly = Annotated[
    bool, Meta(description="the key may cancel and replace only orders of intents that it created")
]


class NewApiKeyBody(Struct, forbid_unknown_fields=True, frozen=True):
    """The request to create a key: with environment and permissions, or with the budget of an agent.

    A key of an agent needs expires_at, is for paper accounts unless environment is live, and has fixed permissions.
    """

    name: NameText
    environment: Environment | UnsetType = UNSET
    permissions: Permissions | UnsetType = UNSET
    expires_at: Moment | None = None
    own_orders_only: OwnOrdersOnly | UnsetType = UNSET
    account_ids: AccountIds | None = None
    agent: AgentBody | UnsetType = UNSET

    def to_new(self) -> NewApiKey:
        return self._of_agent(self.agent) if self.agent is not UNSET else self._plain()

    def _plain(self) -> NewApiKey:
        if self.environment is UNSET:
            raise InvalidCommand("environment", "is required without agent")
        if self.permissions is UNSET:
            raise InvalidCommand("permissions", "is required without agent")
        return NewApiKey(
            name=self.name,
            environment=self.environment,
            permissions=frozenset(self.permissions),
            expires_at=in_utc(self.expires_at),
            own_orders_only=self.own_orders_only is True,
            account_ids=_account_ids(self.account_ids),
        )

    def _of_agent(self, agent: AgentBody) -> NewApiKey:
        if self.permissions is not UNSET:
            raise InvalidCommand("permissions", "must be left out for an agent, whose permissions are fixed")
        if self.own_orders_only is False:
            raise InvalidCommand("own_orders_only", "must be true or left out for an agent")
        if self.account_ids is not None:
            raise InvalidCommand("account_ids", "must be left out for an agent, which has its own in agent")
        return NewApiKey(
            name=self.name,
            environment=Environment.PAPER if self.environment is UNSET else self.environment,
            permissions=AGENT_PERMISSIONS,
            expires_at=in_utc(self.expires_at),
            own_orders_only=True,
            account_ids=_account_ids(agent.account_ids),
        )


def _account_ids(sent: list[UUID] | None) -> frozenset[AccountId] | None:
    return None if sent is None else frozenset(map(AccountId, sent))


class ApiKeyChangeBody(Struct, forbid_unknown_fields=True, frozen=True):
    """The request to change a key; omitted fields stay as they are."""

    name: NameText | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET
    own_orders_only: OwnOrdersOnly | UnsetType = UNSET

    def to_change(self) -> KeyChange:
        if self.name is UNSET and self.disabled is UNSET and self.own_orders_only is UNSET:
            raise InvalidCommand("", "must have at least one of name, disabled and own_orders_only")
        return KeyChange(
            name=None if self.name is UNSET else self.name,
            disabled=None if self.disabled is UNSET else self.disabled,
            own_orders_only=None if self.own_orders_only is UNSET else self.own_orders_only,
        )


class ApiKeyBody(Struct, frozen=True):
    """A key without its secret."""

    id: UUID
    organization_id: UUID
    key_id: str
    name: str
    environment: Environment
    permissions: list[str]
    own_orders_only: bool
    disabled: bool
    created_at: Moment
    # Absent: all of its environment.
    account_ids: AccountIds | UnsetType = UNSET
    expires_at: Moment | UnsetType = UNSET
    revoked_at: Moment | UnsetType = UNSET
    last_used_at: Annotated[Moment, Meta(description="up to a minute earlier than the last use")] | UnsetType = UNSET
    # The whole key, only in the response that creates it.
    api_key: str | UnsetType = UNSET


class ApiKeyPageBody(PageOf[ApiKeyBody], frozen=True):
    """A page of keys."""


class ValidateBody(Struct, forbid_unknown_fields=True, frozen=True):
    """The request to validate a key."""

    api_key: Annotated[str, Meta(description="the whole text of a key", extra_json_schema={"pattern": "^[ -~]*$"})]


class ValidKeyBody(Struct, frozen=True):
    """A valid key."""

    id: str
    organization_id: str
    environment: Environment
    disabled: bool
    created_at: Moment


def api_key_routes(enter: Enter, manage: ManageApiKeys, create_agent_key: CreateAgentKey) -> Router:
    @post("/", status_code=201)
    async def create_api_key(request: AnyRequest) -> Response[ApiKeyBody]:
        admin = await enter(request, Operation.MANAGE_KEYS)
        await manage.require_open(admin)
        body = await read_body(request, NewApiKeyBody)
        if body.agent is UNSET:
            text, record = await manage.create(admin, body.to_new())
        else:
            text, record = await create_agent_key(admin, body.to_new(), body.agent.to_budget())
        headers = {"location": f"/v1/api-keys/{record.id}"}
        return Response(_body(admin.organization_id, record, text), headers=headers)

    @get("/")
    async def list_api_keys(request: AnyRequest) -> ApiKeyPageBody:
        admin = await enter(request, Operation.MANAGE_KEYS)
        page = await manage.page(admin, *page_of(request))
        data = [_body(admin.organization_id, record) for record in page.rows]
        return ApiKeyPageBody(data, page.next_cursor, page.last_cursor)

    @get("/{api_key_id:uuid}")
    async def show_api_key(request: AnyRequest, api_key_id: FromPath[UUID]) -> ApiKeyBody:
        admin = await enter(request, Operation.MANAGE_KEYS)
        return _body(admin.organization_id, await manage.show(admin, api_key_id))

    @patch("/{api_key_id:uuid}")
    async def change_api_key(request: AnyRequest, api_key_id: FromPath[UUID]) -> ApiKeyBody:
        admin = await enter(request, Operation.MANAGE_KEYS)
        await manage.show(admin, api_key_id)
        await manage.require_open(admin)
        change = (await read_body(request, ApiKeyChangeBody)).to_change()
        return _body(admin.organization_id, await manage.change(admin, api_key_id, change))

    @delete("/{api_key_id:uuid}")
    async def revoke_api_key(request: AnyRequest, api_key_id: FromPath[UUID]) -> None:
        """Revoke a key permanently, also in a disabled organization, whose keys can still read and cancel."""
        admin = await enter(request, Operation.MANAGE_KEYS)
        await manage.change(admin, api_key_id, KeyChange(revoked=True))

    return Router(
        "/v1/api-keys",
        route_handlers=[create_api_key, list_api_keys, show_api_key, change_api_key, revoke_api_key],
    )


def validation_routes(authenticate: Authenticate, limit: LimitRates) -> Router:
    @post("/", status_code=200)
    async def validate_api_key(request: AnyRequest) -> ValidKeyBody:
        """Validate any key for a service account, or the key that calls. Every invalid key gets the same 401."""
        # First, because a caller who guesses keys has no valid credential to count.
        await limit.validation(address_of(request.scope))
        credential = credential_of(request)
        if credential.api_key is None:
            require(await authenticate(credential), Operation.VALIDATE_KEY)
            sent = (await read_body(request, ValidateBody)).api_key
            key = await authenticate.find_key(sent)
        else:
            key = await authenticate.find_key(credential.api_key)
            require_own(key.organization_id, organization_header_of(request))
            sent = (await read_body(request, ValidateBody)).api_key
            if sent != credential.api_key:
                raise Problem("permission_denied", "a key may only validate itself")
        refuse_unknown_query(request)
        return body_from(ValidKeyBody, key, organization_id=str(key.organization_id))

    return Router("/api/v1/auth/api-key/validate", route_handlers=[validate_api_key])


def _body(organization_id: UUID, record: ApiKeyRecord, text: str | UnsetType = UNSET) -> ApiKeyBody:
    return body_from(ApiKeyBody, record, organization_id=organization_id, api_key=text)
