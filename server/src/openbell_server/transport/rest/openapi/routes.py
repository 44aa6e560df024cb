"""The routes that serve the OpenAPI document, its accounts part, and the HTML page."""

import gzip
import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import msgspec
from litestar import Litestar, Response, get
from litestar.handlers import HTTPRouteHandler

from openbell_server.transport.rest.entry import AnyRequest
from openbell_server.transport.rest.openapi.document import ACCOUNTS, openapi_document
from openbell_server.transport.rest.openapi.page import CONTENT_SECURITY_POLICY, render

_REFERENCE: Final = re.compile(r'\{\s+("\$ref": "[^"]*")\s+\}')
_NAMES: Final = re.compile(r'\[\s+("[\w./:*-]+"(?:,\s+"[\w./:*-]+")*)\s+\]')


@dataclass(frozen=True, slots=True)
class _Page:
    content: bytes
    compressed: bytes
    etag: str


def description_routes() -> list[HTTPRouteHandler]:
    """The routes; each response is built at the first request and cached."""
    made: dict[str, _Page] = {}

    def answer(request: AnyRequest, name: str, make: Callable[[Litestar], str], media_type: str) -> Response[bytes]:
        if name not in made:
            content = make(request.app).encode()
            made[name] = _Page(content, gzip.compress(content, mtime=0), f'"{sha256(content).hexdigest()[:32]}"')
        page = made[name]
        headers = {"etag": page.etag, "cache-control": "no-cache", "vary": "accept-encoding"}
        if page.etag in request.headers.getall("if-none-match", []):
            return Response(b"", status_code=304, media_type=media_type, headers=headers)
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(page.content, media_type=media_type, headers=headers)
        headers["content-encoding"] = "gzip"
        return Response(page.compressed, media_type=media_type, headers=headers)

    @get("/openapi.json", media_type="application/json")
    async def whole_document(request: AnyRequest) -> Response[bytes]:
        return answer(request, "whole", lambda app: document_text(openapi_document(app)), "application/json")

    @get("/openapi/accounts.json", media_type="application/json")
    async def accounts_document(request: AnyRequest) -> Response[bytes]:
        return answer(
            request, "accounts", lambda app: document_text(openapi_document(app, below=ACCOUNTS)), "application/json"
        )

    @get("/docs")
    async def docs(request: AnyRequest) -> Response[bytes]:
        page = answer(request, "page", lambda app: render(openapi_document(app)), "text/html; charset=utf-8")
        page.headers["content-security-policy"] = CONTENT_SECURITY_POLICY
        return page

    return [whole_document, accounts_document, docs]


def document_text(document: dict[str, object]) -> str:
    """A reference and a list of names are in one line, so that a change of one does not move the rest."""
    text = msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"
    return _NAMES.sub(lambda found: f"[{' '.join(found[1].split())}]", _REFERENCE.sub(r"{\1}", text))
