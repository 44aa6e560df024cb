"""Converts a request to httpx's arguments, and httpx's answer to a Reply or a NoReply."""

from typing import Any, Final

import httpx

from openbell.connection import Connection
from openbell.replies import NoReply, Reply
from openbell.requests import Request

# httpx raises these before a byte of the request leaves.
_NEVER_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


def client_arguments(connection: Connection) -> dict[str, Any]:
    return {
        "base_url": connection.url,
        "timeout": connection.timeout,
        # A local platform cannot be reached through the proxy of HTTP_PROXY.
        "trust_env": not connection.rest_is_local,
    }


def request_arguments(connection: Connection, request: Request) -> dict[str, Any]:
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
    return Reply(response.status_code, dict(response.headers), response.content)


def no_reply(connection: Connection, error: httpx.RequestError) -> NoReply:
    reason = f"{connection.url}: {str(error) or type(error).__name__}"
    return NoReply(reason, sent=not isinstance(error, _NEVER_SENT))
