"""Builds the OpenAPI 3.1 document from the application's routes and the table of operations."""

import http
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from litestar import Litestar
from litestar.routes import HTTPRoute

from openbell_server.domain.access.authorization import Rule
from openbell_server.domain.errors import CODES, Problem
from openbell_server.transport.rest.access.accounts import AccountChangeBody
from openbell_server.transport.rest.access.api_keys import ApiKeyChangeBody
from openbell_server.transport.rest.entry import UNCOUNTED
from openbell_server.transport.rest.errors import PLAIN_PATHS, ProblemBody, problem_body
from openbell_server.transport.rest.events.webhook_bodies import WebhookChangeBody
from openbell_server.transport.rest.openapi.operation import (
    IF_MATCH,
    NEXT_CURSOR,
    ORGANIZATION,
    PATH_PARAMETERS,
    Described,
    Json,
    Parameter,
    Scheme,
    header,
)
from openbell_server.transport.rest.openapi.operation_table import OPERATIONS, TAG_OF, TAGS, UNDESCRIBED
from openbell_server.transport.rest.openapi.references import SECURITY, share_parameters

VERSION: Final = "0.1.0"
ACCOUNTS: Final = "/v1/accounts"
_SCHEMAS: Final = "#/components/schemas/"
# Names of error responses begin with one of these, and end with the status.
_PROBLEM: Final = "Problem"
_PLAIN: Final = "PlainError"
_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
_DESCRIPTION: Final = (
    "One API for every broker: submit, replace and cancel orders; follow orders and fills. A retried request never "
    "trades twice, a command is durable once you receive 202, and an outcome that cannot be verified is reported as "
    "unknown.\n\n"
    "Numbers are decimal strings and times are RFC 3339. Unknown fields and query parameters are refused. Errors are "
    "problem+json with a code, a remedy, and a pointer to each wrong field. Every response has an x-request-id: yours, "
    "if you sent a valid one."
)
_SECURITY_SCHEMES: Final[Json] = {
    Scheme.API_KEY: {
        "type": "apiKey",
        "in": "header",
        "name": "x-api-key",
        "description": "A private key of an organization, for its paper or its live accounts.",
    },
    Scheme.BEARER: {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "An access token of a user or of a service account.",
    },
}
# Constraints that the field types cannot express.
_BEYOND: Final[dict[str, Json]] = {
    ApiKeyChangeBody.__name__: {"minProperties": 1},
    AccountChangeBody.__name__: {"minProperties": 1},
    WebhookChangeBody.__name__: {"minProperties": 1},
}
_REQUEST_ID: Final = header(
    "The id of this request, also in our logs.", {"type": "string", "pattern": "^[0-9A-Za-z_-]{1,64}$"}
)
_REQUEST_ID_REFERENCE: Final = {"$ref": "#/components/headers/X-Request-Id"}
_RETRY: Final = {"Retry-After": {"$ref": "#/components/headers/Retry-After"}}
_RETRY_AFTER: Final = header("Seconds to wait before the next request.", {"type": "integer", "minimum": 1})


def openapi_document(app: Litestar, *, below: str = "/") -> Json:
    shown = sorted(_rows(app), key=OPERATIONS.index)
    shown = [row for row in shown if row.path.startswith(below)]
    shown_tags = {TAG_OF[row.operation_id] for row in shown}
    schemas = _schemas(shown)
    paths: dict[str, Json] = {}
    common = _common_codes()
    for row in shown:
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row, common)
    document: Json = {
        "openapi": "3.1.0",
        "info": {
            "title": "Openbell" if below == "/" else "Openbell accounts",
            "version": VERSION,
            "summary": "A broker-agnostic trading-intents platform.",
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": SECURITY,
        "tags": [{"name": name, "description": text} for name, text in TAGS.items() if name in shown_tags],
        # Of every operation with a credential; each operation has the others that it can answer.
        "x-openbell-codes": common,
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": _error_responses(shown),
            "headers": {"X-Request-Id": _REQUEST_ID, "Retry-After": _RETRY_AFTER},
            "securitySchemes": _SECURITY_SCHEMES,
        },
    }
    share_parameters(document)
    return document


def codes_of(row: Described) -> list[str]:
    """All error codes of an operation: its own, and those of its credential, path, parameters and body."""
    codes = {"internal_error", "unavailable", "schema_outdated", "invalid_parameter", *row.codes}
    if row.rule is not None:
        codes |= _codes_of_rule(row.rule)
    if row.operation is not None and row.operation not in UNCOUNTED:
        codes |= {"too_many_reads"}
    if "{" in row.path:
        codes |= {"not_found"}
    if "{account_id}" in row.path and Scheme.API_KEY in row.schemes:
        codes |= {"environment_mismatch"}
    if NEXT_CURSOR in row.parameters:
        codes |= {"invalid_cursor"}
    if IF_MATCH in row.parameters:
        codes |= {"invalid_header", "version_mismatch"}
    if row.body is not None:
        codes |= {"malformed_body", "body_too_large", "not_json", "invalid_command"}
    return [code for code in CODES if code in codes]


def _common_codes() -> list[str]:
    every = [codes_of(row) for row in OPERATIONS if row.rule is not None]
    return [code for code in CODES if all(code in codes for codes in every)]


def _codes_of_rule(rule: Rule) -> set[str]:
    codes = {"ambiguous_credentials", "unauthenticated", "permission_denied", "rate_limited", rule.wrong_kind_error}
    if rule.permissions is not None:
        codes |= {"key_disabled"}
    if rule.no_organization_error is not None and rule.roles is not None:
        codes |= {rule.no_organization_error}
    if rule.entitlement is not None:
        codes |= {"entitlement_required"}
    if rule.scoped:
        codes |= {"organization_mismatch"}
    if rule.scoped and rule.scopes is not None:
        codes |= {"invalid_header", "not_found"}
    return codes


def _rows(app: Litestar) -> Iterator[Described]:
    rows = {(row.method, row.path): row for row in OPERATIONS}
    for route in app.routes:
        if isinstance(route, HTTPRoute) and route.path_format not in UNDESCRIBED:
            for method in _METHODS & set(route.methods):
                if (method, route.path_format) not in rows:
                    raise LookupError(f"the table of operations has no row for {method} {route.path_format}")
                yield rows[method, route.path_format]


def _operation(row: Described, common: Collection[str]) -> Json:
    parameters = [*row.parameters, *([ORGANIZATION] if row.rule is not None and row.rule.scoped else [])]
    operation: Json = {
        "operationId": row.operation_id,
        "tags": [TAG_OF[row.operation_id]],
        "summary": row.summary,
        "description": row.description,
        "parameters": [*_path_parameters(row.path), *map(_parameter, parameters)],
        "responses": {str(row.status): _success(row), **_errors(row)},
        "x-openbell-callers": row.callers,
        "x-openbell-codes": [code for code in codes_of(row) if row.rule is None or code not in common],
    }
    security: list[Json] = [{scheme: []} for scheme in row.schemes]
    if security != SECURITY:
        operation["security"] = security
    if row.operation is not None:
        operation["x-openbell-operation"] = row.operation.name
    if row.body is not None:
        examples = {name: {"value": value} for name, value in row.body_examples.items()}
        content = {"application/json": {"schema": _reference(row.body), "examples": examples}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _path_parameters(path: str) -> list[Json]:
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    described = [(name, *PATH_PARAMETERS[name]) for name in names]
    return [
        {"name": name, "in": "path", "required": True, "description": text, "schema": schema, "example": example}
        for name, text, schema, example in described
    ]


def _parameter(parameter: Parameter) -> Json:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.description,
        "schema": parameter.schema,
        "example": parameter.example,
        **({"required": True} if parameter.required else {}),
    }


def _success(row: Described) -> Json:
    response: dict[str, Any] = {
        "description": http.HTTPStatus(row.status).phrase,
        "headers": {**row.answer_headers, "X-Request-Id": _REQUEST_ID_REFERENCE},
    }
    if row.answer is not None:
        content = {"schema": _reference(row.answer), "example": msgspec.to_builtins(row.answer_example)}
        response["content"] = {"application/json": content}
        if row.answer_stream is not None:
            stream = {"schema": {"type": "string"}, "example": row.answer_stream}
            response["content"]["text/event-stream"] = stream
    return response


def _errors(row: Described) -> Json:
    kind = _PLAIN if row.path in PLAIN_PATHS else _PROBLEM
    return {str(status): {"$ref": f"#/components/responses/{kind}{status}"} for status in _codes_by_status(row)}


def _codes_by_status(row: Described) -> dict[int, list[str]]:
    by_status: dict[int, list[str]] = {}
    for code in codes_of(row):
        by_status.setdefault(CODES[code].status, []).append(code)
    return dict(sorted(by_status.items()))


def _error_responses(rows: Iterable[Described]) -> Json:
    """One response for each status; an operation lists its own codes in x-openbell-codes."""
    responses: Json = {}
    for row in rows:
        is_plain = row.path in PLAIN_PATHS
        for status in _codes_by_status(row):
            code = next(code for code in CODES if CODES[code].status == status)
            problem = Problem(code, CODES[code].title)
            schema, example = (
                ({"type": "string"}, problem.detail)
                if is_plain
                else (_reference(ProblemBody), msgspec.to_builtins(problem_body(problem, "4f6b")))
            )
            responses[f"{_PLAIN if is_plain else _PROBLEM}{status}"] = {
                "description": http.HTTPStatus(status).phrase,
                "headers": {"X-Request-Id": _REQUEST_ID_REFERENCE, **(_RETRY if status in {429, 503} else {})},
                "content": {_media_type(is_plain=is_plain): {"schema": schema, "example": example}},
            }
    return dict(sorted(responses.items()))


def _media_type(*, is_plain: bool) -> str:
    return "text/plain" if is_plain else "application/problem+json"


def _reference(shape: type) -> Json:
    return {"$ref": _SCHEMAS + _name(shape.__name__)}


def _name(name: str) -> str:
    """The public name of a schema: the class name without its suffix Body."""
    return name.removesuffix("Body")


def _schemas(rows: Iterable[Described]) -> Json:
    shapes = [shape for row in rows for shape in (row.body, row.answer) if shape is not None]
    _, components = msgspec.json.schema_components(
        dict.fromkeys([*shapes, ProblemBody]), ref_template=_SCHEMAS + "{name}"
    )
    renamed = {_name(name): _renamed(schema) | _BEYOND.get(name, {}) for name, schema in components.items()}
    return dict(sorted(renamed.items()))


def _renamed(schema: Any) -> Any:  # noqa: ANN401 - any JSON
    """The same schema with public names, also in references, and with each default in its description."""
    if isinstance(schema, Mapping):
        # Generators take a field with a default for required.
        default = schema.get("default")
        described = {"description": _with_default(schema.get("description"), default)} if default else {}
        renamed = described | {
            key: _name(value) if key == "title" and isinstance(value, str) else _renamed(value)
            for key, value in schema.items()
            if key != "default" and key not in described
        }
        if schema.get("type") == "object" and "properties" not in schema:
            # Without it generators make a type that has no fields.
            renamed.setdefault("additionalProperties", True)
        return renamed
    if isinstance(schema, list):
        return [_renamed(each) for each in schema]
    return _name(schema) if isinstance(schema, str) and schema.startswith(_SCHEMAS) else schema


def _with_default(description: str | None, default: object) -> str:
    shown = str(default).lower() if isinstance(default, bool) else str(default)
    return f"{description}; default {shown}" if description else f"default {shown}"
