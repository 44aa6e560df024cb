"""Renders the OpenAPI document as one plain HTML page, without scripts or external resources."""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from html import escape
from importlib.resources import files
from typing import Any, Final

from openbell_server.domain.errors import CODES
from openbell_server.transport.rest.openapi.references import SECURITY, all_codes, resolved

_STYLE: Final = files("openbell_server.transport.rest.openapi").joinpath("page.css").read_text()
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
CONTENT_SECURITY_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HTML: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} {version}: API reference</title>
<style>{style}</style>
</head>
<body>
<header>{header}</header>
<nav aria-label="Contents">{contents}</nav>
<main>{main}</main>
</body>
</html>
"""
_AS_DATA: Final = (
    '<a href="/openapi.json">/openapi.json</a> (OpenAPI 3.1), '
    '<a href="/openapi/accounts.json">/openapi/accounts.json</a> (the accounts paths only).'
)
Schema = Mapping[str, Any]
_RULES: Final = {
    "pattern": "matches",
    "minLength": "at least this long:",
    "maxLength": "at most this long:",
    "minimum": "at least",
    "maximum": "at most",
    "minProperties": "fields, at least",
    "maxProperties": "fields, at most",
    "minItems": "items, at least",
    "maxItems": "items, at most",
    "default": "default",
}


def render(document: dict[str, Any]) -> str:
    info, schemas = document["info"], document["components"]["schemas"]
    operations = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    header = [
        f"<h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>",
        *(f"<p>{escape(text)}</p>" for text in info["description"].split("\n\n")),
        f"<p>As data: {_AS_DATA}</p>",
    ]
    main = [_credentials(document["components"]["securitySchemes"])]
    for tag in document["tags"]:
        main.append(f'<h2 id="tag-{escape(tag["name"])}">{escape(tag["name"])}</h2><p>{escape(tag["description"])}</p>')
        main += [_operation(*each, document) for each in operations if each[2]["tags"] == [tag["name"]]]
    main.append('<h2 id="shapes">Shapes</h2>')
    main += [_shape(name, schema) for name, schema in schemas.items()]
    main.append(_all_errors())
    return _HTML.format(
        title=escape(info["title"]),
        version=escape(info["version"]),
        style=_STYLE,
        header="".join(header),
        contents=_contents(document["tags"], operations, schemas),
        main="\n".join(main),
    )


def _contents(tags: Iterable[Schema], operations: list[tuple[str, str, Schema]], schemas: Mapping[str, Schema]) -> str:
    parts = ['<details open><summary>Contents</summary><a href="#credentials">Credentials</a>']
    for tag in tags:
        parts.append(f'<a class="tag" href="#tag-{escape(tag["name"])}">{escape(tag["name"])}</a>')
        parts += [
            f'<a class="operation" href="#{escape(operation["operationId"])}">{_method(method)}'
            f"<span>{escape(operation['summary'])}</span></a>"
            for method, _, operation in operations
            if operation["tags"] == [tag["name"]]
        ]
    parts.append('<a class="tag" href="#shapes">Shapes</a>')
    parts += [f'<a class="shape" href="#shape-{escape(name)}">{escape(name)}</a>' for name in schemas]
    parts.append('<a class="tag" href="#errors">Errors</a></details>')
    return "".join(parts)


def _credentials(schemes: Mapping[str, Schema]) -> str:
    headers = {"apiKey": "x-api-key: <API_KEY>", "bearer": "Authorization: Bearer <ACCESS_TOKEN>"}
    rows = [
        (f"<code>{escape(headers[name])}</code>", escape(scheme["description"])) for name, scheme in schemes.items()
    ]
    return f'<h2 id="credentials">Credentials</h2><p>Send exactly one.</p>{_table(("Header", "What it is"), rows)}'


def _operation(method: str, path: str, operation: Schema, document: dict[str, Any]) -> str:
    identifier = escape(operation["operationId"])
    parts = [
        f'<section id="{identifier}"><h3><a href="#{identifier}">{escape(operation["summary"])}</a></h3>',
        f'<p class="path">{_method(method)} <code>{_breakable(path)}</code></p>',
        f"<p>{escape(operation['description'])}</p>",
        f'<p class="security">{operation["x-openbell-callers"]}</p>',
    ]
    parameters = [resolved(document, each) for each in operation["parameters"]]
    if parameters:
        rows = [
            (
                f"<code>{escape(each['name'])}</code>",
                escape(each["in"]) + (" <em>required</em>" if each.get("required") else ""),
                f"{escape(each['description'])} <small>{_type(each['schema'])}</small>",
            )
            for each in parameters
        ]
        parts += ["<h4>Parameters</h4>", _table(("Name", "In", "Meaning"), rows)]
    parts += _request(method, path, operation, parameters)
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            parts += _success(status, response)
    parts += ["<h4>Errors</h4>", _errors(operation, document), "</section>"]
    return "\n".join(parts)


def _request(method: str, path: str, operation: Schema, parameters: list[dict[str, Any]]) -> list[str]:
    """The schema of the body, and a curl command for each example."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return ["<h4>Example</h4>", _code(_curl(method, path, operation, parameters, None))]
    parts = [f"<h4>Body</h4><p>{_type(content['schema'])}</p>"]
    for number, (name, example) in enumerate(content["examples"].items()):
        text = _code(_curl(method, path, operation, parameters, example["value"]))
        parts.append(
            f"<details{' open' if number == 0 else ''}><summary>Example: {escape(name)}</summary>{text}</details>"
        )
    return parts


def _curl(method: str, path: str, operation: Schema, parameters: list[dict[str, Any]], body: object) -> str:
    address = path.replace("{account_id}", "$OPENBELL_ACCOUNT")
    address = re.sub(r"\{(\w+)\}", lambda name: f"${name[1].upper()}", address)
    lines = [f'curl{"" if method == "GET" else f" -X {method}"} "$OPENBELL_URL{address}"']
    schemes = [name for scheme in operation.get("security", SECURITY) for name in scheme]
    if schemes:
        headers = {"apiKey": "x-api-key: $OPENBELL_API_KEY", "bearer": "authorization: Bearer $ACCESS_TOKEN"}
        lines.append(f'  -H "{headers[schemes[0]]}"')
    lines += [
        f'  -H "{each["name"].lower()}: {each["example"]}"' for each in parameters if each["name"] == "Idempotency-Key"
    ]
    if body is not None:
        lines += ["  -H 'content-type: application/json'", f"  -d '{json.dumps(body, indent=2)}'"]
    return " \\\n".join(lines)


def _success(status: str, response: Schema) -> list[str]:
    parts = [f"<h4>Answer {escape(status)}</h4>"]
    content = response.get("content", {}).get("application/json")
    if content is None:
        parts.append("<p>No body.</p>")
    else:
        parts.append(f"<p>{_type(content['schema'])}</p>")
        text = _code(json.dumps(content["example"], indent=2))
        parts.append(f"<details><summary>Example</summary>{text}</details>")
    named = {name: header for name, header in response["headers"].items() if name != "X-Request-Id"}
    if named:
        rows = [(f"<code>{escape(name)}</code>", escape(header["description"])) for name, header in named.items()]
        parts.append(_table(("Header", "Meaning"), rows))
    return parts


def _errors(operation: Schema, document: dict[str, Any]) -> str:
    rows = []
    for code in all_codes(operation, document):
        status = str(CODES[code].status)
        is_plain = "text/plain" in resolved(document, operation["responses"][status])["content"]
        note = " <small>(plain text)</small>" if is_plain else ""
        link = f'<a href="#error-{escape(code)}"><code>{escape(code)}</code></a>'
        rows.append((status, link, escape(CODES[code].title) + note))
    return _table(("Status", "Code", "Meaning"), rows)


def _all_errors() -> str:
    rows = [
        (
            f'<code id="error-{escape(name)}">{escape(name)}</code>',
            str(code.status),
            escape(code.title),
            escape(code.remedy),
        )
        for name, code in CODES.items()
    ]
    return '<h2 id="errors">Errors</h2>' + _table(("Code", "Status", "What it means", "What to do"), rows)


def _shape(name: str, schema: Schema) -> str:
    identifier = f"shape-{escape(name)}"
    parts = [
        f'<section id="{identifier}" class="shape"><h3><a href="#{identifier}">{escape(name)}</a></h3>',
        f"<p>{escape(schema.get('description', ''))}</p>",
    ]
    if "properties" in schema:
        required = schema.get("required", [])
        rows = [
            (
                f"<code>{escape(field)}</code>",
                _type(each) + (" <em>required</em>" if field in required else ""),
            )
            for field, each in schema["properties"].items()
        ]
        parts.append(_table(("Field", "Type"), rows))
    else:
        parts.append(f"<p>{_type(schema)}</p>")
    return "".join([*parts, "</section>"])


def _type(schema: Schema) -> str:
    """A schema in one line, with links to the schemas it refers to."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        kind = f'<a href="#shape-{escape(name)}">{escape(name)}</a>'
    elif "anyOf" in schema:
        kind = " or ".join(_type(each) for each in schema["anyOf"])
    elif "enum" in schema:
        kind = ", ".join(f"<code>{escape(json.dumps(value))}</code>" for value in schema["enum"])
    elif "const" in schema:
        kind = f"<code>{escape(json.dumps(schema['const']))}</code>"
    elif schema.get("type") == "array":
        kind = "list of " + _type(schema["items"])
    else:
        kind = escape(str(schema.get("type", "anything"))) + (f" ({schema['format']})" if "format" in schema else "")
    rules = [
        f"{label} <code>{escape(str(schema[rule]))}</code>"
        for rule, label in _RULES.items()
        if rule in schema and schema[rule] is not None
    ]
    described = f" {escape(schema['description'])}" if "description" in schema else ""
    return kind + "".join(f" <small>{rule}</small>" for rule in rules) + described


def _method(method: str) -> str:
    return f'<b class="method {method.lower()}">{escape(method)}</b>'


def _breakable(path: str) -> str:
    return escape(path).replace("/", "<wbr>/")


def _code(text: str) -> str:
    return f"<pre><code>{escape(text)}</code></pre>"


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
