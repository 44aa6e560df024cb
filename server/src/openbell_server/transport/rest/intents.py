"""The intent routes."""

from typing import Any, Final
from uuid import UUID

import msgspec
from litestar import Request, Response, Router, get, post
from litestar.datastructures import State
from litestar.exceptions.http_exceptions import InternalServerException, RequestEntityTooLarge
from litestar.params import FromPath
from msgspec import UNSET

from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.application.read_intents import ReadIntents
from openbell_server.application.read_statistics import ReadStatistics
from openbell_server.application.submit_intent import SubmitIntent
from openbell_server.domain.authorization import Operation
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId, IntentId
from openbell_server.domain.intents import CommandRequest
from openbell_server.transport.rest.entry import AnyRequest, Enter, idempotency_key_of
from openbell_server.transport.rest.hot_route import Answer, SubmitHandler
from openbell_server.transport.rest.intent_bodies import (
    ActionBody,
    PageBody,
    SubmitBody,
    action_body,
    execution_body,
    page_body,
)
from openbell_server.transport.rest.intent_queries import filter_of, page_of, window_of
from openbell_server.transport.rest.statistics_bodies import StatisticsBody, statistics_body
from openbell_server.transport.rest.strict_json import decode_json, read_shape

_COMMON_TYPES: Final = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})


def submit_handler(enter: Enter, submit: SubmitIntent) -> SubmitHandler:
    """Answers a command, whichever way it came."""

    async def handle(request: AnyRequest, account_id: AccountId) -> Answer:
        body = _BodyReadOnce(request)
        if submit.accept.is_crowded:
            # Before anything else: in a crowd, whatever a refusal costs is taken from those who are served.
            submit.accept.require_room(cancels=await body.is_cancel())
        caller = await enter.with_command(request, account_id, body.is_cancel)

        async def decode(broker: BrokerDefinition) -> CommandRequest:
            return read_shape(await body.decoded(), SubmitBody).to_request(broker)

        submitted = await submit(caller, account_id, decode, lambda: idempotency_key_of(request))
        headers = {"location": f"/v1/accounts/{account_id}/intents/{submitted.recorded.action.intent_id}"}
        if submitted.replayed:
            headers["idempotency-replayed"] = "true"
        execution = execution_body(submitted.execution, submit.brokers)
        return Answer(202, headers, msgspec.json.encode(action_body(submitted.recorded, execution)))

    return handle


def intent_routes(
    enter: Enter, handle_submit: SubmitHandler, read: ReadIntents, read_statistics: ReadStatistics
) -> Router:
    """The intent routes of an account."""

    @post("/", status_code=202)
    async def submit_intent(request: Request[Any, Any, State], account_id: FromPath[UUID]) -> Response[bytes]:
        """Append a command: it is durable when this answers."""
        answer = await handle_submit(request, AccountId(account_id))
        return Response(answer.content, headers=answer.headers, media_type="application/json")

    @get("/")
    async def list_intents(request: Request[Any, Any, State], account_id: FromPath[UUID]) -> PageBody:
        """Actions of the account, all or some, in commit order."""
        caller = await enter(request, Operation.READ_INTENTS)
        return page_body(await read.page(caller, AccountId(account_id), *page_of(request), filter_of(request)))

    @get("/stats")
    async def show_statistics(request: Request[Any, Any, State], account_id: FromPath[UUID]) -> StatisticsBody:
        """What was asked in a time window, and what came of it."""
        caller = await enter(request, Operation.READ_INTENTS)
        return statistics_body(await read_statistics(caller, AccountId(account_id), window_of(request)))

    @get("/{intent_id:uuid}")
    async def show_intent(
        request: Request[Any, Any, State], account_id: FromPath[UUID], intent_id: FromPath[UUID]
    ) -> ActionBody:
        """The latest action of an intent, and how its order stands."""
        caller = await enter(request, Operation.READ_INTENTS)
        recorded, execution = await read.latest(caller, AccountId(account_id), IntentId(intent_id))
        return action_body(recorded, execution_body(execution, read.brokers))

    @get("/{intent_id:uuid}/actions")
    async def list_actions(
        request: Request[Any, Any, State], account_id: FromPath[UUID], intent_id: FromPath[UUID]
    ) -> PageBody:
        """The history of an intent."""
        caller = await enter(request, Operation.READ_INTENTS)
        page = await read.history(caller, AccountId(account_id), IntentId(intent_id), *page_of(request))
        return page_body(page)

    return Router(
        "/v1/accounts/{account_id:uuid}/intents",
        route_handlers=[submit_intent, list_intents, show_statistics, show_intent, list_actions],
    )


class _BodyReadOnce:
    """A body that is looked at before it is needed; what is wrong with it is said when it is needed."""

    def __init__(self, request: AnyRequest) -> None:
        self._request = request
        self._read: object = UNSET
        self._problem: Problem | None = None

    async def decoded(self) -> object:
        if self._read is UNSET and self._problem is None:
            try:
                self._read = decode_json(await json_body_of(self._request))
            except Problem as problem:
                self._problem = problem
        if self._problem is not None:
            raise self._problem
        return self._read

    async def is_cancel(self) -> bool:
        try:
            body = await self.decoded()
        except Problem:
            return False
        command = body.get("command") if isinstance(body, dict) else None
        return isinstance(command, dict) and command.get("type") == "CANCEL"


async def json_body_of(request: Request[Any, Any, State]) -> bytes:
    """The body, if it says that it is JSON and is not too large."""
    media_type = request.content_type[0]
    if media_type.lower() != "application/json":
        # One that nobody knows may be a secret in the wrong header.
        told = media_type if media_type.lower() in _COMMON_TYPES else "another" if media_type else "missing"
        raise Problem("not_json", f"the body's content type is {told}")
    try:
        return await request.body()
    except RequestEntityTooLarge:
        raise Problem("body_too_large", "the body is too large") from None
    except InternalServerException:
        # Litestar's word for a caller that has left; nobody reads the answer, and it is no failure of ours.
        raise Problem("malformed_body", "the connection ended before the body had come") from None
