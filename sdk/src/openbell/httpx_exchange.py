"""One request in httpx's terms, and what came of it in ours."""

from typing import Any, Final

import httpx

from openbell.connection import Connection
from openbell.plans import Lost
from openbell.requests import Reply, Request

# These are raised before a byte of the request leaves.
_NEVER_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


def client_arguments(connection: Connection) -> dict[str, Any]:
    """What both of httpx's clients are made with."""
    return {
        "base_url": connection.base_url,
        "timeout": connection.timeout,
        # A proxy meant for the world outside would turn a local platform into an unreachable one.
        "trust_env": not connection.rest_is_local,
    }


def request_arguments(connection: Connection, request: Request) -> dict[str, Any]:
    """What one request is sent with."""
    header, secret = connection.credential
    longest = connection.timeout if request.timeout is None else min(request.timeout, connection.timeout)
    return {
        "method": request.method,
        "url": request.path,
        "params": request.parameters,
        "headers": {**request.headers, header: secret},
        "content": request.body,
        "timeout": max(longest, request.patience),
    }


def reply_of(response: httpx.Response) -> Reply:
    """The reply, read whole."""
    return Reply(response.status_code, dict(response.headers), response.content)


def loss_of(connection: Connection, error: httpx.RequestError) -> Lost:
    """Why there is no reply."""
    reason = f"{connection.base_url}: {str(error) or type(error).__name__}"
    return Lost(reason, sent=not isinstance(error, _NEVER_SENT))
