"""Errors in the format of Alpaca's API, with the platform's own problem as an additional field."""

from typing import Any, Final

import msgspec
from litestar import Request, Response
from litestar.exceptions import MethodNotAllowedException, NotFoundException
from msgspec import UnsetType

from openbell_server.transport.rest.alpaca.entry import PREFIX
from openbell_server.transport.rest.errors import ErrorRenderer, ProblemBody

# Alpaca's status of problems for which the platform has a more precise one. Clients repeat requests that were answered
# 429 or 504 by themselves: 429 means here that nothing was recorded, and 504 is never sent.
STATUSES: Final = {
    "account_disabled": 403,
    "account_closed": 403,
    "account_not_ready": 403,
    "organization_disabled": 403,
    "controls_refused": 403,
    "order_terminal": 422,
    "order_unknown": 422,
    "invalid_parameter": 422,
    "not_json": 400,
}
_UNIQUE: Final = "client_order_id must be unique"


def alpaca_renderer(render: ErrorRenderer) -> ErrorRenderer:
    """Renders errors of this API's paths; those of every other path are rendered by `render`."""

    def alpaca(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
        rendered = render(request, error)
        if not request.scope["path"].startswith(f"{PREFIX}/"):
            return rendered
        if isinstance(error, NotFoundException | MethodNotAllowedException):
            message = "this platform does not support this operation of Alpaca's API"
            body: dict[str, Any] = {"code": 50110000, "message": message}
            return Response(msgspec.json.encode(body), status_code=501, media_type="application/json")
        problem = msgspec.json.decode(rendered.content, type=ProblemBody)
        status = STATUSES.get(problem.code, problem.status)
        message = _UNIQUE if problem.code == "idempotency_key_reused" else problem.detail
        headers = {**rendered.headers, "openbell-code": problem.code}
        if not isinstance(problem.receipt, UnsetType) and not isinstance(problem.receipt.id, UnsetType):
            headers["openbell-receipt-id"] = str(problem.receipt.id)
        body = {"code": status * 100_000 + 10_000, "message": message, "openbell": problem}
        return Response(msgspec.json.encode(body), status_code=status, media_type="application/json", headers=headers)

    return alpaca
