"""The routes that serve the OpenAPI document, its accounts part, and the HTML page."""

import msgspec
from litestar import Response, get
from litestar.handlers import HTTPRouteHandler

from openbell_server.transport.rest.entry import AnyRequest
from openbell_server.transport.rest.openapi.document import ACCOUNTS, openapi_document
from openbell_server.transport.rest.openapi.page import CONTENT_SECURITY_POLICY, render


def description_routes() -> list[HTTPRouteHandler]:
    """The routes; each response is built at the first request and cached."""
    made: dict[str, str] = {}

    @get("/openapi.json", media_type="application/json")
    async def whole_document(request: AnyRequest) -> str:
        if "whole" not in made:
            made["whole"] = document_text(openapi_document(request.app))
        return made["whole"]

    @get("/openapi/accounts.json", media_type="application/json")
    async def accounts_document(request: AnyRequest) -> str:
        if "accounts" not in made:
            made["accounts"] = document_text(openapi_document(request.app, below=ACCOUNTS))
        return made["accounts"]

    @get("/docs")
    async def docs(request: AnyRequest) -> Response[str]:
        if "page" not in made:
            made["page"] = render(openapi_document(request.app))
        headers = {"content-security-policy": CONTENT_SECURITY_POLICY, "x-content-type-options": "nosniff"}
        return Response(made["page"], media_type="text/html", headers=headers)

    return [whole_document, accounts_document, docs]


def document_text(document: dict[str, object]) -> str:
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"
