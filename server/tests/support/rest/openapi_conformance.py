"""Holds real answers against the OpenAPI document."""

import re
from typing import Any

import httpx
import jsonschema

from openbell_server.transport.rest.openapi.references import resolved

METHODS = {"get", "post", "put", "patch", "delete"}


class Conformance:
    """Knows the document; says what of an answer is not in it."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._components = document["components"]
        self._operations = [
            (re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))), method.upper(), operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        ]

    def breaks(self, response: httpx.Response) -> list[str]:
        """What the document does not foresee."""
        request = response.request
        path = request.url.raw_path.decode().partition("?")[0]
        operation = next(
            (
                each
                for pattern, method, each in self._operations
                if method == request.method and pattern.fullmatch(path)
            ),
            None,
        )
        what = f"{request.method} {path} {response.status_code}"
        if operation is None:
            return [f"{what}: no such operation"]
        reference = operation["responses"].get(str(response.status_code))
        if reference is None:
            return [f"{what}: the status is not described: {response.text}"]
        described = resolved({"components": self._components}, reference)
        missing = [
            name
            for name, header in described["headers"].items()
            if resolved({"components": self._components}, header).get("required")
            and name.lower() not in response.headers
        ]
        return [f"{what}: header {name} is missing" for name in missing] + self._body(what, described, response)

    def _body(self, what: str, described: dict[str, Any], response: httpx.Response) -> list[str]:
        kind = response.headers.get("content-type", "").partition(";")[0]
        contents = described.get("content", {})
        if not contents:
            return [f"{what}: a body where none is described"] if response.content else []
        if kind not in contents:
            return [f"{what}: {kind or 'no content type'} is not described"]
        if not kind.endswith("json"):
            return []
        schema = {**contents[kind]["schema"], "components": self._components}
        validator = jsonschema.Draft202012Validator(
            schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
        )
        return [f"{what}: {error.json_path} {error.message}" for error in validator.iter_errors(response.json())]
