"""The route of the dry run: what the controls would say of a command."""

import json
from typing import Any
from uuid import UUID

from litestar import Request, post
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from msgspec import Struct

from openbell_server.application.evaluate_command import EvaluateCommand
from openbell_server.domain.authorization import Operation
from openbell_server.domain.identifiers import AccountId
from openbell_server.transport.rest.entry import Enter
from openbell_server.transport.rest.intent_bodies import SubmitBody
from openbell_server.transport.rest.intents import json_body_of
from openbell_server.transport.rest.strict_json import read_json


class EvaluateBody(SubmitBody, frozen=True, kw_only=True):
    """The body of a dry run: a submit's, and the account it would be for."""

    account_id: UUID


class EvaluationBody(Struct, frozen=True):
    """What the controls would say now."""

    verdict: str
    # As a submit would store it, but for its time.
    receipt: dict[str, Any]


def evaluation_route(enter: Enter, evaluate: EvaluateCommand) -> HTTPRouteHandler:
    """The route."""

    @post("/v1/controls/evaluate", status_code=200)
    async def evaluate_command(request: Request[Any, Any, State]) -> EvaluationBody:
        """Judge a command without recording it."""
        caller = await enter(request, Operation.READ_CONTROLS)
        body = read_json(await json_body_of(request), EvaluateBody)
        receipt = await evaluate(caller, AccountId(body.account_id), body.to_request)
        return EvaluationBody(receipt.verdict, json.loads(receipt.text))

    return evaluate_command
