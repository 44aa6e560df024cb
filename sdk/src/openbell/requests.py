"""Builds the parts that every request has."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

import msgspec

from openbell.errors import UnexpectedReply

PAGE_LIMIT: Final = 100


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, without the address and the credential."""

    method: str
    path: str
    parameters: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    # Seconds; shortens the client's own timeout.
    timeout: float | None = None
    # Seconds; extends the client's own timeout for a request that is slow by its nature.
    patience: float = 0.0


def path_of(*parts: str) -> str:
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def page(path: str, cursor: str | None = None, limit: int = PAGE_LIMIT, **filters: object) -> Request:
    """One page of a list; a filter that is None or empty is left out."""
    chosen = {name: text_of(name, value) for name, value in filters.items() if value not in (None, "")}
    return Request("GET", path, {"limit": str(limit), **({} if cursor is None else {"next_cursor": cursor}), **chosen})


def narrowed(request: Request, parameters: Mapping[str, str]) -> Request:
    """The same request with more parameters."""
    return replace(request, parameters={**request.parameters, **parameters})


def following_page(request: Request, next_cursor: str | None) -> Request | None:
    """The request for the page after this one, or None if this was the last."""
    if next_cursor is None:
        return None
    if next_cursor == request.parameters.get("next_cursor"):
        raise UnexpectedReply("A page named itself as the next one.")
    return replace(request, parameters={**request.parameters, "next_cursor": next_cursor})


def change(
    method: str,
    path: str,
    body: Mapping[str, Any],
    *,
    parameters: dict[str, str] | None = None,
    if_version: int | None = None,
) -> Request:
    """A request with a JSON body; with if_version the server rejects it unless the object has that version."""
    headers = {"content-type": "application/json"}
    return if_match(Request(method, path, parameters or {}, headers, msgspec.json.encode(body)), if_version)


def if_match(request: Request, version: int | None) -> Request:
    return request if version is None else replace(request, headers={**request.headers, "if-match": f'"{version}"'})


def without_none(values: Mapping[str, Any], *left_out: str) -> dict[str, Any]:
    """The values that are not None, except those whose names are left out."""
    return {name: value for name, value in values.items() if value is not None and name not in left_out}


def text_of(name: str, value: object) -> str:
    """A value as a query has it; raises ValueError for a time without a time zone."""
    if not isinstance(value, datetime):
        return str(value)
    if value.tzinfo is None:
        raise ValueError(f"{name} must have a time zone, such as datetime.now(timezone.utc).")
    return value.isoformat()
