"""The intent routes."""

from uuid import UUID

import msgspec
from litestar import Response, Router, get, post
from litestar.params import FromPath
from msgspec import UNSET

from openbell_server.application.intents.read_intents import ReadIntents
from openbell_server.application.intents.read_statistics import ReadStatistics
from openbell_server.application.intents.submit_intent import SubmitIntent, UnknownAccount
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId, IntentId
from openbell_server.domain.orders.intents import CommandRequest
from openbell_server.transport.rest.entry import AnyRequest, Enter, idempotency_key_of
from openbell_server.transport.rest.intents.bodies import (
    ActionBody,
    PageBody,
    SubmitBody,
    action_body,
    execution_body,
    page_body,
)
from openbell_server.transport.rest.intents.statistics_bodies import StatisticsBody, statistics_body
from openbell_server.transport.rest.intents.submit_fast_path import Answer, SubmitHandler
from openbell_server.transport.rest.query_parameters import filter_of, page_of, window_of
from openbell_server.transport.rest.strict_json import decode_json, json_body_of, read_shape


def submit_handler(enter: Enter, submit: SubmitIntent) -> SubmitHandler:
    """The handler of submits, shared by the route and the fast path."""

    async def handle(request: AnyRequest, account_id: AccountId) -> Answer:
        body = _BodyReadOnce(request)
        caller = await enter.with_command(request, account_id, body.is_cancel)

        async def decode(broker: BrokerDefinition) -> CommandRequest:
            return read_shape(await body.decoded(), SubmitBody).to_request(broker)

        try:
            submitted = await submit(caller, account_id, decode, lambda: idempotency_key_of(request))
        except UnknownAccount:
            await enter.limit.unknown_account(caller)
            raise
        headers = {"location": f"/v1/accounts/{account_id}/intents/{submitted.recorded.action.intent_id}"}
        if submitted.replayed:
            headers["idempotency-replayed"] = "true"
        execution = execution_body(submitted.execution, submit.brokers)
        return Answer(202, headers, msgspec.json.encode(action_body(submitted.recorded, execution)))

    return handle


def intent_routes(
    enter: Enter, handle_submit: SubmitHandler, read: ReadIntents, read_statistics: ReadStatistics
) -> Router:
    @post("/", status_code=202)
    async def submit_intent(request: AnyRequest, account_id: FromPath[UUID]) -> Response[bytes]:
        answer = await handle_submit(request, AccountId(account_id))
        return Response(answer.content, headers=answer.headers, media_type="application/json")

    @get("/")
    async def list_intents(request: AnyRequest, account_id: FromPath[UUID]) -> PageBody:
        caller = await enter(request, Operation.READ_INTENTS)
        return page_body(await read.page(caller, AccountId(account_id), *page_of(request), filter_of(request)))

    @get("/stats")
    async def show_statistics(request: AnyRequest, account_id: FromPath[UUID]) -> StatisticsBody:
        caller = await enter(request, Operation.READ_INTENTS)
        return statistics_body(await read_statistics(caller, AccountId(account_id), window_of(request)))

    @get("/{intent_id:uuid}")
    async def show_intent(request: AnyRequest, account_id: FromPath[UUID], intent_id: FromPath[UUID]) -> ActionBody:
        caller = await enter(request, Operation.READ_INTENTS)
        recorded, execution = await read.latest(caller, AccountId(account_id), IntentId(intent_id))
        return action_body(recorded, execution_body(execution, read.brokers))

    @get("/{intent_id:uuid}/actions")
    async def list_actions(request: AnyRequest, account_id: FromPath[UUID], intent_id: FromPath[UUID]) -> PageBody:
        caller = await enter(request, Operation.READ_INTENTS)
        page = await read.history(caller, AccountId(account_id), IntentId(intent_id), *page_of(request))
        return page_body(page)

    return Router(
        "/v1/accounts/{account_id:uuid}/intents",
        route_handlers=[submit_intent, list_intents, show_statistics, show_intent, list_actions],
    )


class _BodyReadOnce:
    """A body that is decoded at most once; a decoding error is raised again at every later use."""

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
