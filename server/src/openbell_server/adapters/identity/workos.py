"""WorkOS as the identity provider, by its own SDK, which is kept to one deadline a call and believed only on JSON."""

import asyncio
import json
from typing import Final
from urllib.parse import urlsplit

import httpx
import structlog
from workos import AsyncWorkOSClient, HTTPResponse, NotFoundError, TransportError, TransportTimeout, WorkOSError

from openbell_server.application.ports.identity_provider import ProviderUnavailable
from openbell_server.domain.access_tokens import LOOPBACK
from openbell_server.domain.errors import OperatorError

CALL_SECONDS: Final = 2
BYTES_MAX: Final = 1024 * 1024
PAGE_ROWS: Final = 100
MEMBERSHIPS_MAX: Final = 1000


class WorkOSProvider:
    """Implements IdentityProvider."""

    def __init__(self, client: httpx.AsyncClient, *, api_key: str, client_id: str, base_url: str) -> None:
        """The client is the caller's to close."""
        address = urlsplit(base_url)
        if address.scheme != "https" and address.hostname not in LOOPBACK:
            raise OperatorError("OPENBELL_WORKOS_BASE_URL must be https: the API key goes there.")
        self._workos = AsyncWorkOSClient(
            api_key=api_key,
            client_id=client_id,
            base_url=base_url,
            request_timeout=CALL_SECONDS,
            # Whoever calls knows better whether and when to try again.
            max_retries=0,
            http_client=_OneDeadline(client),
        )

    async def memberships(self, user_id: str) -> frozenset[str]:
        """The ids of the organizations that the user is an active member of; or ProviderUnavailable."""
        found: set[str] = set()
        try:
            # The SDK's own bound is for each page.
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
        """Delete the user for good, or ProviderUnavailable; one who is not there is deleted."""
        try:
            await self._workos.user_management.delete_user(user_id)
        except NotFoundError:
            return
        except _TROUBLE as trouble:
            raise _unavailable("delete_user", trouble) from trouble


# The last three are what the SDK lets out when JSON is not of the shape that it expects.
_TROUBLE: Final = (WorkOSError, TimeoutError, ValueError, TypeError, AttributeError)


def _unavailable(call: str, trouble: Exception) -> ProviderUnavailable:
    # Only what kind of trouble: the provider's words may name people.
    status = getattr(trouble, "status_code", None)
    structlog.get_logger().warning("identity_provider_failed", call=call, error=type(trouble).__name__, status=status)
    return ProviderUnavailable(f"WorkOS did not answer {call}")


class _OneDeadline:
    """How the SDK reaches WorkOS; by itself it takes a broken body for an empty one, and a redirect for a success."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def request(
        self, method: str, url: str, *, headers: dict[str, str], content: bytes | None, timeout: float
    ) -> HTTPResponse:
        """One call; raises TransportError for everything that is no answer of WorkOS."""
        body = bytearray()
        try:
            # One deadline for all of it: a timeout for each read would let a server drip for ever.
            async with (
                asyncio.timeout(timeout),
                self._client.stream(
                    method,
                    url,
                    # Nothing packed: a small body cannot unpack into a large one.
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
        """Nothing: the client is the caller's to close."""


def _is_json_or_nothing(body: bytes) -> bool:
    try:
        return not body or isinstance(json.loads(body), dict)
    except ValueError:
        return False
