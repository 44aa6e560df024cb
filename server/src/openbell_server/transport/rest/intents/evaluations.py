"""The dry-run route: evaluates the controls for a command without recording it."""

from uuid import UUID

import msgspec
from litestar import post
from litestar.handlers import HTTPRouteHandler
from msgspec import Struct

from openbell_server.application.intents.evaluate_command import EvaluateCommand
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.controls.findings import Verdict
from openbell_server.domain.identifiers import AccountId
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.errors import ReceiptBody
from openbell_server.transport.rest.intents.bodies import SubmitBody
from openbell_server.transport.rest.strict_json import read_body


class EvaluateBody(SubmitBody, frozen=True, kw_only=True):
    """The request of a dry run: a submit request and its account."""

    account_id: UUID


class EvaluationBody(Struct, frozen=True):
    """The result that the controls would have now."""

    verdict: Verdict
    # As a submit would store it, except for its time.
    receipt: ReceiptBody


def evaluation_route(enter: Enter, evaluate: EvaluateCommand) -> HTTPRouteHandler:
    @post("/v1/controls/evaluate", status_code=200)
    async def evaluate_command(request: AnyRequest) -> EvaluationBody:
        caller = await enter(request, Operation.READ_CONTROLS)
        body = await read_body(request, EvaluateBody)
        receipt = await evaluate(caller, AccountId(body.account_id), body.to_request)
        return EvaluationBody(Verdict(receipt.verdict), msgspec.json.decode(receipt.text, type=ReceiptBody))

    return evaluate_command
