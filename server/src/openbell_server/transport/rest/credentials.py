"""The routes of an account's credential; nothing that they answer repeats what was sent."""

from typing import Annotated, Any
from uuid import UUID

from litestar import Request, Response, Router, delete, get, post, put
from litestar.datastructures import State
from litestar.params import FromPath
from msgspec import UNSET, Meta, Struct, UnsetType

from openbell_server.application.manage_credentials import Filled, ManageCredentials, read_form
from openbell_server.application.ports.broker import CredentialForm
from openbell_server.domain.authorization import Operation
from openbell_server.domain.credentials import Credential, CredentialStatus
from openbell_server.domain.errors import InvalidCommand, Problem
from openbell_server.domain.identifiers import AccountId
from openbell_server.transport.rest.entry import Enter, etag_of, if_match_of
from openbell_server.transport.rest.intents import json_body_of
from openbell_server.transport.rest.strict_json import read_json
from openbell_server.transport.rest.wire_types import Moment, in_utc

# What a broker asks for is judged by its form.
Fields = Annotated[
    dict[str, Any],
    Meta(
        description="by name, what the account's broker asks for",
        extra_json_schema={"additionalProperties": {"type": "string"}, "minProperties": 1},
    ),
]


class CredentialRequest(Struct, forbid_unknown_fields=True, frozen=True):
    """The body that sets a credential; what it leaves out is removed."""

    fields: Fields
    expires_at: Moment | None = None

    def __repr__(self) -> str:
        """Nothing of the fields."""
        return "CredentialRequest(…)"


class CredentialBody(Struct, frozen=True):
    """A credential as callers see it; its secrets are nowhere."""

    id: UUID
    account_id: UUID
    broker: str
    kind: str
    # The last four characters of what is not secret about it.
    hint: str
    status: CredentialStatus
    created_at: Moment
    updated_at: Moment
    version: int
    verified_at: Moment | UnsetType = UNSET
    expires_at: Moment | UnsetType = UNSET


def credential_routes(enter: Enter, manage: ManageCredentials) -> Router:
    """What an account signs in with at its broker."""

    @put("/")
    async def put_credential(request: Request[Any, Any, State], account_id: FromPath[UUID]) -> Response[CredentialBody]:
        """Create or replace the credential."""
        caller = await enter(request, Operation.EDIT_CREDENTIALS)

        async def decode(form: CredentialForm) -> Filled:
            return _read(await json_body_of(request), form)

        return _answer(await manage.put(caller, AccountId(account_id), if_match_of(request), decode))

    @get("/")
    async def show_credential(
        request: Request[Any, Any, State], account_id: FromPath[UUID]
    ) -> Response[CredentialBody]:
        """The credential without its secrets."""
        caller = await enter(request, Operation.READ_CREDENTIALS)
        return _answer(await manage.show(caller, AccountId(account_id)))

    @delete("/")
    async def delete_credential(request: Request[Any, Any, State], account_id: FromPath[UUID]) -> None:
        """Remove the credential, and destroy its secrets."""
        caller = await enter(request, Operation.EDIT_CREDENTIALS)
        await manage.remove(caller, AccountId(account_id), if_match_of(request))

    @post("/verify", status_code=200)
    async def verify_credential(
        request: Request[Any, Any, State], account_id: FromPath[UUID]
    ) -> Response[CredentialBody]:
        """Ask the broker now."""
        caller = await enter(request, Operation.EDIT_CREDENTIALS)
        return _answer(await manage.verify(caller, AccountId(account_id)))

    return Router(
        "/v1/accounts/{account_id:uuid}/credentials",
        route_handlers=[put_credential, show_credential, delete_credential, verify_credential],
    )


def _read(body: bytes, form: CredentialForm) -> Filled:
    try:
        asked = read_json(body, CredentialRequest)
    except Problem as problem:
        raise _without_names(problem) from None
    return Filled(read_form(form, asked.fields), in_utc(asked.expires_at))


def _without_names(problem: Problem) -> Problem:
    """The reader's refusal, without a name that the caller chose: a secret may have got there."""
    if problem.code == "malformed_body":
        return Problem("malformed_body", "the body is not one JSON object in UTF-8 with each key once")
    if any(error.code == "unknown_field" for error in problem.errors):
        return InvalidCommand("", "has a field that is not known; the fields are fields, expires_at")
    return problem


def _answer(credential: Credential) -> Response[CredentialBody]:
    body = CredentialBody(
        id=credential.id,
        account_id=credential.account_id,
        broker=credential.broker,
        kind=credential.kind,
        hint=credential.hint,
        status=credential.status,
        created_at=credential.created_at,
        updated_at=credential.updated_at,
        version=credential.version,
        verified_at=credential.verified_at or UNSET,
        expires_at=credential.expires_at or UNSET,
    )
    return Response(body, headers=etag_of(credential.version))
