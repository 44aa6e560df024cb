"""The intent routes."""

from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

from litestar import Request, Response, Router, get, post
from litestar.datastructures import State
from litestar.params import Parameter

from openbell_server.application.authenticate import Authenticate
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.application.read_intents import ReadIntents
from openbell_server.application.submit_intent import SubmitIntent
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId, IntentId
from openbell_server.domain.intents import Command
from openbell_server.transport.rest.authentication import api_key_of, idempotency_key_of
from openbell_server.transport.rest.intent_bodies import ActionBody, PageBody, SubmitBody, action_body, page_body
from openbell_server.transport.rest.strict_json import read_json

Cursor = Annotated[str | None, Parameter(query="next_cursor", max_length=200)]
Limit = Annotated[str | None, Parameter(query="limit", max_length=20)]


@dataclass(frozen=True, slots=True)
class IntentUseCases:
    """What the routes call."""

    authenticate: Authenticate
    submit: SubmitIntent
    read: ReadIntents


def intent_routes(use_cases: IntentUseCases) -> Router:
    """The five intent routes of an account."""

    @post("/", status_code=202)
    async def submit_intent(request: Request[Any, Any, State], account_id: UUID) -> Response[ActionBody]:
        """Append a command: it is durable when this answers."""
        caller = await use_cases.authenticate(api_key_of(request))
        key = idempotency_key_of(request)
        body = await request.body()

        def decode(broker: BrokerDefinition) -> Command:
            if request.content_type[0] != "application/json":
                raise Problem("not_json", f"the body's content type is {request.content_type[0] or 'missing'}")
            return read_json(body, SubmitBody).to_command(broker)

        submitted = await use_cases.submit(caller, AccountId(account_id), decode, key)
        action = submitted.recorded.action
        headers = {"location": f"/v1/accounts/{account_id}/intents/{action.intent_id}"}
        if submitted.replayed:
            headers["idempotency-replayed"] = "true"
        return Response(action_body(submitted.recorded, submitted.execution), headers=headers)

    @get("/")
    async def list_intents(
        request: Request[Any, Any, State], account_id: UUID, cursor: Cursor = None, limit: Limit = None
    ) -> PageBody:
        """Actions of the account, in commit order."""
        caller = await use_cases.authenticate(api_key_of(request))
        return page_body(await use_cases.read.page(caller, AccountId(account_id), cursor, whole(limit)))

    @get("/{intent_id:uuid}")
    async def show_intent(request: Request[Any, Any, State], account_id: UUID, intent_id: UUID) -> ActionBody:
        """The latest action of an intent, and how its order stands."""
        caller = await use_cases.authenticate(api_key_of(request))
        return action_body(*await use_cases.read.latest(caller, AccountId(account_id), IntentId(intent_id)))

    @get("/{intent_id:uuid}/actions")
    async def list_actions(
        request: Request[Any, Any, State],
        account_id: UUID,
        intent_id: UUID,
        cursor: Cursor = None,
        limit: Limit = None,
    ) -> PageBody:
        """The history of an intent."""
        caller = await use_cases.authenticate(api_key_of(request))
        return page_body(
            await use_cases.read.history(caller, AccountId(account_id), IntentId(intent_id), cursor, whole(limit))
        )

    return Router(
        "/v1/accounts/{account_id:uuid}/intents",
        route_handlers=[submit_intent, list_intents, show_intent, list_actions],
    )


def whole(text: str | None) -> int | None:
    """A limit as a number; what is no number counts as out of bounds."""
    if text is None:
        return None
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
