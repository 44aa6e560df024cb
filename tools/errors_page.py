"""Generates docs/errors.md from the error codes and the operations that can return them."""

from openbell_server.domain.errors import CODES
from openbell_server.transport.rest.openapi.document import codes_of
from openbell_server.transport.rest.openapi.operation_table import OPERATIONS

_INTRODUCTION = """# Errors

On this page you find every error code, what it means and what to do. Errors are `application/problem+json` (RFC 9457),
except those of deleteMe and showOutboxHealth, which are plain text:

```json
{"type": "urn:openbell:problem:invalid_command", "title": "A field of the body is not valid", "status": 422,
 "detail": "/command/payload/order_side must be one of BUY, SELL, SELL_SHORT",
 "code": "invalid_command", "remedy": "See errors for the field and what would pass.", "request_id": "4f6b",
 "errors": [{"pointer": "/command/payload/order_side", "code": "invalid",
             "message": "must be one of BUY, SELL, SELL_SHORT"}]}
```

`code` is for programs and never changes its meaning; `detail` describes this failure, `remedy` the next step.
`errors` points at each wrong field by JSON pointer (`/headers/…` for a header, `/limit` for a query parameter)
and states which values are valid. Codes may be added: handle an unknown one by its status.
[Typical mistakes](mistakes.md) shows real responses.

| Code | Status | What it means | What to do | Where |
|---|---|---|---|---|
"""


def errors_page() -> str:
    lines = []
    for name, code in CODES.items():
        lines.append(f"| `{name}` | {code.status} | {code.title} | {code.remedy} | {_where(name)} |\n")
    return _INTRODUCTION + "".join(lines)


def _where(code: str) -> str:
    """The operations that can return it, or if that is most of them, the others."""
    places = [row.operation_id for row in OPERATIONS if code in codes_of(row)]
    others = [row.operation_id for row in OPERATIONS if row.operation_id not in places]
    if not places:
        return "any path"
    if not others:
        return "everywhere"
    return ", ".join(places) if len(places) <= len(others) else f"all but {', '.join(others)}"
