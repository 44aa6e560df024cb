"""WorkOS as the identity provider, through its SDK, with one deadline per call and only JSON answers accepted."""

import asyncio
import json
from typing import Final
from urllib.parse import urlsplit

import httpx
import structlog
from workos import AsyncWorkOSClient, HTTPResponse, NotFoundError, TransportError, TransportTimeout, WorkOSError

from openbell_server.application.access.ports.identity_provider import ProviderUnavailable
from openbell_server.domain.access.access_tokens import LOOPBACK
from openbell_server.domain.errors import OperatorError

CALL_SECONDS: Final = 2
BYTES_MAX: Final = 1024 * 1024
PAGE_ROWS: Final = 100
MEMBERSHIPS_MAX: Final = 1000


class WorkOSProvider:
    """Implements IdentityProvider; the caller closes the client."""

    def __init__(self, client: httpx.AsyncClient, *, api_key: str, client_id: str, base_url: str) -> None:
        address = urlsplit(base_url)
        if address.scheme != "https" and address.hostname not in LOOPBACK:
            raise OperatorError("OPENBELL_WORKOS_BASE_URL must be https: the API key goes there.")
        self._workos = AsyncWorkOSClient(
            api_key=api_key,
            client_id=client_id,
            base_url=base_url,
            request_timeout=CALL_SECONDS,
            # The caller decides about retries.
            max_retries=0,
            http_client=_OneDeadline(client),
        )

    async def memberships(self, user_id: str) -> frozenset[str]:
        """At most MEMBERSHIPS_MAX organizations with an active membership; raises ProviderUnavailable."""
        found: set[str] = set()
        try:
            # The SDK's own timeout applies to each page.
            async with asyncio.timeout(CALL_SECONDS):
                page = await self._workos.organization_membership.list_organization_memberships(
                    user_id=user_id, statuses=["active"], limit=PAGE_ROWS
                )
                async for row in page.auto_paging_iter():
                    if row.user_id == user_id and row.status == "active":
                        found.add(row.organization_id)
                    if len(found) >= MEMBERSHIPS_MAX:
                        break
        except NotFoundError:
            return frozenset()
        except _TROUBLE as trouble:
            raise _unavailable("memberships", trouble) from trouble
        return frozenset(found)

    async def delete_user(self, user_id: str) -> None:
        """Raises ProviderUnavailable; an unknown user counts as deleted."""
        try:
            await self._workos.user_management.delete_user(user_id)
        except NotFoundError:
            return
        except _TROUBLE as trouble:
            raise _unavailable("delete_user", trouble) from trouble


# The SDK raises the last three for JSON of an unexpected form.
_TROUBLE: Final = (WorkOSError, TimeoutError, ValueError, TypeError, AttributeError)


def _unavailable(call: str, trouble: Exception) -> ProviderUnavailable:
    # Only the type of error, because the provider's text may contain names.
    status = getattr(trouble, "status_code", None)
    structlog.get_logger().warning("identity_provider_failed", call=call, error=type(trouble).__name__, status=status)
    return ProviderUnavailable(f"WorkOS did not answer {call}")


class _OneDeadline:
    """HTTP client of the SDK, which by itself accepts a broken body as empty and a redirect as success."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def request(
        self, method: str, url: str, *, headers: dict[str, str], content: bytes | None, timeout: float
    ) -> HTTPResponse:
        """Raises TransportError for anything that is not an answer of WorkOS."""
        body = bytearray()
        try:
            # One deadline for the whole call: with a timeout per read a slow server could take forever.
            async with (
                asyncio.timeout(timeout),
                self._client.stream(
                    method,
                    url,
                    # No compression: a small body could expand to a large one.
                    headers={**headers, "accept-encoding": "identity"},
                    content=content,
                    timeout=None,
                    follow_redirects=False,
                ) as response,
            ):
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > BYTES_MAX:
                        raise TransportError(f"the answer is larger than {BYTES_MAX} bytes")
        except TimeoutError as error:
            raise TransportTimeout(f"no answer within {timeout} s") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise TransportError(repr(error)) from error
        if 300 <= response.status_code < 400 or not _is_json_or_nothing(bytes(body)):
            raise TransportError(f"status {response.status_code} and no JSON, or a redirect")
        return HTTPResponse(response.status_code, response.headers, bytes(body), method, url)

    async def close(self) -> None:
        """Does nothing: the caller closes the client."""


def _is_json_or_nothing(body: bytes) -> bool:
    try:
        return not body or isinstance(json.loads(body), dict)
    except ValueError:
        return False
