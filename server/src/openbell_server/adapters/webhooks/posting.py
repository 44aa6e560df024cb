"""Posts to webhook targets: resolves the host, checks every address, and connects only to a checked one.

Ignores proxies of the environment, follows no redirect, and neither decompresses nor stores the answer.
"""

import asyncio
import ipaddress
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpcore

from openbell_server.application.webhooks.ports.posting import Answer, DeliveryFailure, NotDelivered
from openbell_server.bounded_http import BoundedNetwork, trusted_tls
from openbell_server.domain.events.webhook_targets import TargetRefused, check_address, is_private_allowed, target_of

CONNECT_SECONDS: Final = 5.0
WHOLE_SECONDS: Final = 10.0
# Limit of an answer's body; the rest is dropped with the connection.
BODY_BYTES_MAX: Final = 65_536
WIRE_BYTES_MAX: Final = 262_144
ADDRESSES_MAX: Final = 16
CONNECTIONS_MAX: Final = 64
# Shorter than the idle timeout of servers.
_IDLE_SECONDS: Final = 2
# A DNS server that does not answer blocks a thread for longer than any caller waits.
_RESOLVERS: Final = 64
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class SystemResolver:
    """Resolves host names in its own threads."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_RESOLVERS, "webhook-names")

    async def __call__(self, host: str, port: int) -> list[str]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, _addresses, host, port)
        return list(dict.fromkeys(found))


def _addresses(host: str, port: int) -> list[str]:
    return [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


class CheckedNetwork(BoundedNetwork):
    """Connects only to addresses that were checked just before, because a name may resolve differently each time.

    Private networks must be allowed by the operator.
    """

    def __init__(self, resolve: Resolve, *, private_targets: Collection[str]) -> None:
        super().__init__(WIRE_BYTES_MAX)
        self._resolve = resolve
        self._private_targets = private_targets

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to one of the host's addresses; one forbidden address rejects the host."""
        async with asyncio.timeout(timeout):
            addresses = await self._checked(host, port)
            # Each address gets an equal share of the time, so that one silent address does not use all of it.
            share = None if timeout is None else timeout / len(addresses)
            trouble: Exception = httpcore.ConnectError("no address")
            for address in addresses:
                try:
                    return await super().connect_tcp(address, port, share, local_address, socket_options)
                except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                    trouble = error
            raise trouble

    async def _checked(self, host: str, port: int) -> list[str]:
        try:
            addresses = (await self._resolve(host, port))[:ADDRESSES_MAX]
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError("the host has no address") from error
        if not addresses:
            raise httpcore.ConnectError("the host has no address")
        private_allowed = is_private_allowed(host, port, self._private_targets)
        for address in addresses:
            check_address(ipaddress.ip_address(address), private_allowed=private_allowed)
        return list(addresses)


class WebhookPoster:
    """Implements Poster; `now` is needed for answers with a date in Retry-After."""

    def __init__(
        self,
        *,
        private_targets: Collection[str] = (),
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
        connect_seconds: float = CONNECT_SECONDS,
        whole_seconds: float = WHOLE_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._now = now
        self._private_targets = private_targets
        self._whole_seconds = whole_seconds
        self._timeouts = {"connect": connect_seconds, "read": whole_seconds, "write": whole_seconds, "pool": 1.0}
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls or trusted_tls(),
            max_connections=CONNECTIONS_MAX,
            max_keepalive_connections=CONNECTIONS_MAX,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=CheckedNetwork(resolve or SystemResolver(), private_targets=private_targets),
        )

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send once and read the answer up to BODY_BYTES_MAX; raises NotDelivered."""
        try:
            # The rules may have become stricter since the URL was stored.
            target = target_of(url, private_targets=self._private_targets)
            async with asyncio.timeout(self._whole_seconds):
                return await self._post(
                    httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path),
                    {"host": target.authority, "content-length": str(len(body)), **headers},
                    body,
                )
        except TargetRefused as refusal:
            raise NotDelivered(DeliveryFailure.TARGET_REFUSED, f"the url {refusal}") from None
        except TimeoutError:
            raise NotDelivered(DeliveryFailure.TIMED_OUT, f"no whole answer within {self._whole_seconds:g} s") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            raise NotDelivered(_trouble(error), f"{type(error).__name__}: {error}".removesuffix(": ")) from None

    async def _post(self, url: httpcore.URL, headers: Mapping[str, str], body: bytes) -> Answer:
        extensions = {"timeout": self._timeouts}
        async with self._pool.stream(
            "POST", url, headers=list(headers.items()), content=body, extensions=extensions
        ) as response:
            received = 0
            async for chunk in response.aiter_stream():
                received += len(chunk)
                if received > BODY_BYTES_MAX:
                    break
            if _is_followed(response):
                # Surplus bytes would be read as the answer to the next request.
                await response.extensions["network_stream"].aclose()
            return Answer(response.status, _retry_after(response.headers, self._now()))

    async def close(self) -> None:
        await self._pool.aclose()


def _is_followed(response: httpcore.Response) -> bool:
    """Whether surplus bytes followed the answer. httpcore keeps them without a public API; a test detects a change."""
    stream: Any = response.stream
    more, _ = stream._stream._connection._h11_state.trailing_data  # noqa: SLF001 - there is no other way to see it
    return bool(more)


def _trouble(error: Exception) -> DeliveryFailure:
    if isinstance(error, httpcore.TimeoutException):
        return DeliveryFailure.TIMED_OUT
    return DeliveryFailure.NOT_REACHED if isinstance(error, httpcore.ConnectError) else DeliveryFailure.BROKEN_ANSWER


def _retry_after(headers: Iterable[tuple[bytes, bytes]], now: float) -> float:
    """Seconds to wait, from a number or a date; 0 if neither can be parsed."""
    header = next((value for name, value in headers if name.lower() == b"retry-after"), b"")
    if header.isdigit():
        return float(header)
    try:
        until = parsedate_to_datetime(header.decode("ascii"))
    except (ValueError, OverflowError):
        return 0.0
    # HTTP dates are in UTC.
    return max(0.0, until.replace(tzinfo=UTC).timestamp() - now)
