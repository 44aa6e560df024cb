"""The routes of an account's broker credential; responses never repeat what was sent."""

from typing import Annotated, Any
from uuid import UUID

from litestar import Response, Router, delete, get, post, put
from litestar.params import FromPath
from msgspec import UNSET, Meta, Struct, UnsetType

from openbell_server.application.access.manage_credentials import Filled, ManageCredentials, read_form
from openbell_server.application.ports.broker import CredentialForm
from openbell_server.domain.access.accounts import broker_and_profile
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.credentials import Credential, CredentialStatus
from openbell_server.domain.errors import InvalidCommand, Problem
from openbell_server.domain.identifiers import AccountId
from openbell_server.transport.rest.entry import AnyRequest, Enter, etag_of, if_match_of
from openbell_server.transport.rest.strict_json import json_body_of, read_json
from openbell_server.transport.rest.wire_types import Moment, body_from, in_utc

# The broker's form checks the fields.
Fields = Annotated[
    dict[str, Any],
    Meta(
        description="the credential fields of the account's broker, by name",
        extra_json_schema={"additionalProperties": {"type": "string"}, "minProperties": 1},
    ),
]


class CredentialRequest(Struct, forbid_unknown_fields=True, frozen=True):
    """The request to set a credential; it replaces all fields and the expiry."""

    fields: Fields
    expires_at: Moment | None = None

    def __repr__(self) -> str:
        return "CredentialRequest(…)"


class CredentialBody(Struct, frozen=True):
    """A credential without its secrets."""

    id: UUID
    account_id: UUID
    broker: str
    kind: str
    # The last four characters of a field that is not secret.
    hint: str
    status: CredentialStatus
    created_at: Moment
    updated_at: Moment
    version: int
    verified_at: Moment | UnsetType = UNSET
    expires_at: Moment | UnsetType = UNSET


def credential_routes(enter: Enter, manage: ManageCredentials) -> Router:
    @put("/")
    async def put_credential(request: AnyRequest, account_id: FromPath[UUID]) -> Response[CredentialBody]:
        caller = await enter(request, Operation.EDIT_CREDENTIALS)

        async def decode(form: CredentialForm) -> Filled:
            return _read(await json_body_of(request), form)

        return _answer(await manage.put(caller, AccountId(account_id), if_match_of(request), decode))

    @get("/")
    async def show_credential(request: AnyRequest, account_id: FromPath[UUID]) -> Response[CredentialBody]:
        caller = await enter(request, Operation.READ_CREDENTIALS)
        return _answer(await manage.show(caller, AccountId(account_id)))

    @delete("/")
    async def delete_credential(request: AnyRequest, account_id: FromPath[UUID]) -> None:
        caller = await enter(request, Operation.EDIT_CREDENTIALS)
        await manage.remove(caller, AccountId(account_id), if_match_of(request))

    @post("/verify", status_code=200)
    async def verify_credential(request: AnyRequest, account_id: FromPath[UUID]) -> Response[CredentialBody]:
        caller = await enter(request, Operation.EDIT_CREDENTIALS)
        return _answer(await manage.verify(caller, AccountId(account_id)))

    return Router(
        "/v1/accounts/{account_id:uuid}/credentials",
        route_handlers=[put_credential, show_credential, delete_credential, verify_credential],
    )


def _read(body: bytes, form: CredentialForm) -> Filled:
    try:
        sent = read_json(body, CredentialRequest)
    except Problem as problem:
        raise _without_names(problem) from None
    return Filled(read_form(form, sent.fields), in_utc(sent.expires_at))


def _without_names(problem: Problem) -> Problem:
    """The same problem without names from the caller, which may be secrets in the wrong place."""
    if problem.code == "malformed_body":
        return Problem("malformed_body", "the body is not one JSON object in UTF-8 with each key once")
    if any(error.code == "unknown_field" for error in problem.errors):
        return InvalidCommand("", "has a field that is not known; the fields are fields, expires_at")
    return problem


def _answer(credential: Credential) -> Response[CredentialBody]:
    broker, _ = broker_and_profile(credential.broker)
    return Response(body_from(CredentialBody, credential, broker=broker), headers=etag_of(credential.version))
