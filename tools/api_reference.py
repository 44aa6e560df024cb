"""The page of the REST interface, made of its OpenAPI document: every operation and every shape."""

import copy
from collections import Counter
from collections.abc import Iterator
from typing import Any

from openbell_server.domain.errors import CODES
from openbell_server.transport.rest.openapi.references import resolved

Json = dict[str, Any]
INTRODUCTION = (
    "# REST operations\n\n"
    "This page lists every operation of the [REST interface](reference.md). `make generate` writes it from [the "
    "OpenAPI document](openapi.json), which also has patterns, bounds and examples; a running api shows them at "
    "`/docs`. [Errors](errors.md) explains the codes and what to do about them.\n\n"
    "Fields and parameters marked * are required. Every operation that needs a credential can also return {codes}. "
    "Parameters that many operations take are described only here:\n\n"
)
OFTEN = 8


def api_reference_page(document: Json) -> str:
    """docs/api-reference.md."""
    document = copy.deepcopy(document)
    operations = [(method, path, row) for path, row_of in document["paths"].items() for method, row in row_of.items()]
    shared = [(CODES[code].status, code) for code in document["x-openbell-codes"]]
    for *_, row in operations:
        row["parameters"] = [resolved(document, each) for each in row["parameters"]]
    counts = Counter(_parameter(each) for *_, row in operations for each in row["parameters"])
    often = {row: True for row, count in counts.items() if count > OFTEN}
    codes = ", ".join(f"{status} `{code}`" for status, code in sorted(shared))
    page = INTRODUCTION.format(codes=codes) + "\n".join(often) + "\n"
    for tag in document["tags"]:
        page += f"\n## {tag['name']}\n\n{tag['description']}\n"
        for method, path, row in operations:
            if tag["name"] in row["tags"]:
                page += _operation(method.upper(), path, row, set(often))
    shapes = sorted(document["components"]["schemas"].items())
    return page + "\n## Shapes\n" + "".join(_shape(*shape) for shape in shapes)


def _operation(method: str, path: str, row: Json, often: set[str]) -> str:
    lines = [f"\n### {row['operationId']}\n", f"`{method} {path}`", ""]
    lines.append(f"{row['summary'].rstrip('.')}. {row['description']} {row['x-openbell-callers']}\n")
    lines += [told for each in row["parameters"] if (told := _parameter(each)) not in often]
    if "requestBody" in row:
        lines.append(f"- Body: {_content(row['requestBody'])}")
    lines += [f"- {status}: {_content(answer)}" for status, answer in row["responses"].items() if status < "400"]
    refusals: dict[int, list[str]] = {}
    for code in row["x-openbell-codes"]:
        refusals.setdefault(CODES[code].status, []).append(f"`{code}`")
    lines += [f"- {status}: {', '.join(codes)}" for status, codes in sorted(refusals.items())]
    return "\n".join(lines) + "\n"


def _parameter(row: Json) -> str:
    name = f"`{row['name']}`{'*' if row.get('required') else ''}"
    return f"- {name} in the {row['in']}, {_type(row['schema'])}: {' '.join(row.get('description', '').split())}"


def _content(holder: Json) -> str:
    kinds = holder.get("content", {})
    told = [
        _type(body["schema"]) + ("" if kind == "application/json" else f" ({kind})") for kind, body in kinds.items()
    ]
    return ", or ".join(told) or holder.get("description") or "nothing"


def _shape(name: str, schema: Json) -> str:
    required = set(schema.get("required", ()))
    fields = [
        f"`{field}`{'*' if field in required else ''} {_type(kind)}"
        for field, kind in schema.get("properties", {}).items()
    ]
    told = "; ".join(fields) or _type(schema)
    text = " ".join(schema.get("description", "").split())
    return f"\n#### {name} shape\n\n{text}{' ' if text else ''}{told}.\n"


def _type(schema: Json) -> str:
    """A type in words, with links to other shapes."""
    return next(_types(schema), "anything")


def _types(schema: Json) -> Iterator[str]:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        yield f"[{name}](#{name.lower()}-shape)"
    for many in ("anyOf", "oneOf", "allOf"):
        if many in schema:
            yield " or ".join(dict.fromkeys(_type(each) for each in schema[many]))
    if "enum" in schema:
        yield ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        yield f"`{schema['const']}`"
    kinds = schema.get("type", ())
    if kinds == "array":
        yield f"list of {_type(schema.get('items', {}))}"
    if kinds == "object" and isinstance(schema.get("additionalProperties"), dict):
        yield f"object of {_type(schema['additionalProperties'])}"
    for kind in [kinds] if isinstance(kinds, str) and kinds else []:
        yield schema.get("format", kind)
    if kinds:
        yield " or ".join(kinds)
