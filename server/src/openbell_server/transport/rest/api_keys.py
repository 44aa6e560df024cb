"""The routes of API keys: managing them, and asking whether one is valid."""

from typing import Annotated, Any
from uuid import UUID

from litestar import Request, Response, Router, delete, get, patch, post
from litestar.datastructures import State
from litestar.params import FromPath
from msgspec import UNSET, Meta, Struct, UnsetType

from openbell_server.application.authenticate import Authenticate
from openbell_server.application.limit_rates import LimitRates
from openbell_server.application.manage_api_keys import ManageApiKeys
from openbell_server.domain.accounts import Environment
from openbell_server.domain.api_keys import ApiKey, ApiKeyRecord, KeyChange, NewApiKey
from openbell_server.domain.authorization import Operation, require, require_own
from openbell_server.domain.errors import InvalidCommand, Problem
from openbell_server.domain.principals import PERMISSIONS
from openbell_server.transport.rest.entry import Enter, credential_of, organization_header_of, refuse_unknown_query
from openbell_server.transport.rest.intent_queries import page_of
from openbell_server.transport.rest.intents import json_body_of
from openbell_server.transport.rest.strict_json import read_json
from openbell_server.transport.rest.wire_types import Moment, NameText, in_utc

# What this says beyond the type is judged by the domain.
Permissions = Annotated[
    list[Annotated[str, Meta(extra_json_schema={"enum": sorted(PERMISSIONS)})]],
    Meta(
        description="to edit controls is said for each environment, and a key takes that of its own only",
        extra_json_schema={"minItems": 1},
    ),
]


class NewApiKeyBody(Struct, forbid_unknown_fields=True, frozen=True):
    """The body that asks for a key."""

    name: NameText
    environment: Environment
    permissions: Permissions
    expires_at: Moment | None = None

    def to_new(self) -> NewApiKey:
        """What is asked for, as the domain knows it."""
        return NewApiKey(
            name=self.name,
            environment=self.environment,
            permissions=frozenset(self.permissions),
            expires_at=in_utc(self.expires_at),
        )


class ApiKeyChangeBody(Struct, forbid_unknown_fields=True, frozen=True):
    """The body that changes a key; what it leaves out stays."""

    name: NameText | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET

    def to_change(self) -> KeyChange:
        """The change, as the domain knows it."""
        if self.name is UNSET and self.disabled is UNSET:
            raise InvalidCommand("", "must have name, disabled or both")
        return KeyChange(
            name=None if self.name is UNSET else self.name, disabled=None if self.disabled is UNSET else self.disabled
        )


class ApiKeyBody(Struct, frozen=True):
    """A key as admins see it; its secret is nowhere."""

    id: UUID
    organization_id: UUID
    key_id: str
    name: str
    environment: Environment
    permissions: list[str]
    disabled: bool
    created_at: Moment
    expires_at: Moment | UnsetType = UNSET
    revoked_at: Moment | UnsetType = UNSET
    # The whole text of a key, in the answer that makes it and in no other.
    api_key: str | UnsetType = UNSET


class ApiKeyPageBody(Struct, frozen=True):
    """A page of keys."""

    data: list[ApiKeyBody]
    next_cursor: str | None
    last_cursor: str | None


class ValidateBody(Struct, forbid_unknown_fields=True, frozen=True):
    """The body that asks about a key."""

    api_key: Annotated[str, Meta(description="the whole text of a key", extra_json_schema={"pattern": "^[ -~]*$"})]


class ValidKeyBody(Struct, frozen=True):
    """What is told of a valid key."""

    id: str
    organization_id: str
    environment: Environment
    disabled: bool
    created_at: Moment


def api_key_routes(enter: Enter, manage: ManageApiKeys) -> Router:
    """Managing the keys of an organization."""

    @post("/", status_code=201)
    async def create_api_key(request: Request[Any, Any, State]) -> Response[ApiKeyBody]:
        """Make a key; its text is in this answer and nowhere else."""
        admin = await enter(request, Operation.MANAGE_KEYS)
        await manage.require_open(admin)
        new = read_json(await json_body_of(request), NewApiKeyBody).to_new()
        text, record = await manage.create(admin, new)
        headers = {"location": f"/v1/api-keys/{record.id}", "cache-control": "no-store"}
        return Response(_body(admin.organization_id, record, text), headers=headers)

    @get("/")
    async def list_api_keys(request: Request[Any, Any, State]) -> ApiKeyPageBody:
        """Keys of the organization, in commit order."""
        admin = await enter(request, Operation.MANAGE_KEYS)
        page = await manage.page(admin, *page_of(request))
        data = [_body(admin.organization_id, record) for record in page.keys]
        return ApiKeyPageBody(data, page.next_cursor, page.last_cursor)

    @get("/{api_key_id:uuid}")
    async def show_api_key(request: Request[Any, Any, State], api_key_id: FromPath[UUID]) -> ApiKeyBody:
        """One key."""
        admin = await enter(request, Operation.MANAGE_KEYS)
        return _body(admin.organization_id, await manage.show(admin, api_key_id))

    @patch("/{api_key_id:uuid}")
    async def change_api_key(request: Request[Any, Any, State], api_key_id: FromPath[UUID]) -> ApiKeyBody:
        """Disable, enable or rename a key."""
        admin = await enter(request, Operation.MANAGE_KEYS)
        await manage.show(admin, api_key_id)
        await manage.require_open(admin)
        change = read_json(await json_body_of(request), ApiKeyChangeBody).to_change()
        return _body(admin.organization_id, await manage.change(admin, api_key_id, change))

    @delete("/{api_key_id:uuid}")
    async def revoke_api_key(request: Request[Any, Any, State], api_key_id: FromPath[UUID]) -> None:
        """Revoke a key, for good; in a disabled organization too, where it could still read and cancel."""
        admin = await enter(request, Operation.MANAGE_KEYS)
        await manage.change(admin, api_key_id, KeyChange(revoked=True))

    return Router(
        "/v1/api-keys",
        route_handlers=[create_api_key, list_api_keys, show_api_key, change_api_key, revoke_api_key],
    )


def validation_routes(authenticate: Authenticate, limit: LimitRates) -> Router:
    """Asking whether a key is valid: a service account about any key, a key about itself."""

    @post("/", status_code=200)
    async def validate_api_key(request: Request[Any, Any, State]) -> Response[ValidKeyBody]:
        """What is told of a key that is valid, or disabled; of any other the same 401."""
        # First of all: who guesses has no valid credential.
        await limit.validation(request.client.host if request.client else "")
        credential = credential_of(request)
        if credential.api_key is None:
            require(await authenticate(credential), Operation.VALIDATE_KEY)
            asked = read_json(await json_body_of(request), ValidateBody).api_key
            key = await authenticate.find_key(asked)
        else:
            key = await authenticate.find_key(credential.api_key)
            require_own(key.organization_id, organization_header_of(request))
            asked = read_json(await json_body_of(request), ValidateBody).api_key
            if asked != credential.api_key:
                raise Problem("permission_denied", "a key may ask about itself only")
        refuse_unknown_query(request)
        return Response(_valid(key), headers={"cache-control": "no-store"})

    return Router("/api/v1/auth/api-key/validate", route_handlers=[validate_api_key])


def _body(organization_id: UUID, record: ApiKeyRecord, text: str | UnsetType = UNSET) -> ApiKeyBody:
    return ApiKeyBody(
        id=record.id,
        organization_id=organization_id,
        key_id=record.key_id,
        name=record.name,
        environment=record.environment,
        permissions=list(record.permissions),
        disabled=record.disabled,
        created_at=record.created_at,
        expires_at=record.expires_at or UNSET,
        revoked_at=record.revoked_at or UNSET,
        api_key=text,
    )


def _valid(key: ApiKey) -> ValidKeyBody:
    return ValidKeyBody(
        id=key.id,
        organization_id=str(key.organization_id),
        environment=key.environment,
        disabled=key.disabled,
        created_at=key.created_at,
    )
