"""The client."""

from collections.abc import AsyncGenerator, AsyncIterator
from types import TracebackType
from typing import Self, Unpack

import httpx

from openbell.async_client import sse
from openbell.async_client.controls import AsyncControlCalls
from openbell.async_client.desk_commands import AsyncDeskCalls
from openbell.async_client.intents import AsyncIntentCalls
from openbell.async_client.markets import AsyncMarketCalls
from openbell.async_client.organization import AsyncAccounts, AsyncApiKeys, AsyncAudit, AsyncOperations
from openbell.async_client.receipts import AsyncReceiptCalls
from openbell.async_client.session import AsyncSession
from openbell.async_client.webhooks import AsyncWebhooks
from openbell.connection import DEFAULT_TIMEOUT, connect
from openbell.events.mirror import AsyncMirror
from openbell.events.records import Event
from openbell.events.streams import async_opened
from openbell.events.subscriptions import EventOptions, Subscription, Transport, subscription_of


class AsyncClient(AsyncIntentCalls, AsyncDeskCalls, AsyncControlCalls, AsyncMarketCalls, AsyncReceiptCalls):
    """Submits, replaces, cancels and follows intents. May be shared between the tasks of one event loop.

    Every call raises NotConfigured, Unreachable, UnexpectedReply, or an ApiError: Invalid, NotAuthenticated,
    PermissionDenied, NotFound, Conflict, RateLimited or Unavailable. Reads and commands are retried three times.

    Defaults come from OPENBELL_API_KEY, OPENBELL_URL, OPENBELL_STREAM and OPENBELL_ACCOUNT. `timeout` is in seconds,
    per request. `access_token` is a user's token; it is sent instead of the key.
    """

    def __init__(
        self,
        api_key: str | None = None,
        url: str | None = None,
        stream_address: str | None = None,
        account_id: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        *,
        access_token: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(
            AsyncSession(connect(api_key, url, stream_address, account_id, timeout, access_token), transport)
        )
        self.accounts = AsyncAccounts(self._session)
        self.api_keys = AsyncApiKeys(self._session)
        self.audit = AsyncAudit(self._session)
        self.operations = AsyncOperations(self._session)
        self.webhooks = AsyncWebhooks(self._session)

    def __repr__(self) -> str:
        return f"AsyncClient({self._connection})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._session.http.aclose()

    def events(self, resume_token: str | None = None, **options: Unpack[EventOptions]) -> AsyncIterator[Event]:
        """Follow the account's events; reconnects by itself and never skips an event.

        It starts with new events, after `resume_token`, or as the option `start` defines: LIVE, PRIMED (the current
        orders and positions first) or BEGINNING. The sync client subscribes before this returns, the async client
        at the first iteration. Raises EventMissed if events were lost, and Unreachable after too many failed attempts.
        """
        return async_opened(self._follow(subscription_of(self._connection, resume_token, options)))

    def mirror(self, *, account_id: str | None = None, transport: Transport | None = None) -> AsyncMirror:
        """Follow the account's open orders and positions: `async with client.mirror() as mirror: …`."""
        options: EventOptions = {"account_id": account_id, "start": "PRIMED", "transport": transport}
        subscription = subscription_of(self._connection, None, options)
        return AsyncMirror(self._follow(subscription), subscription)

    def _follow(self, subscription: Subscription) -> AsyncGenerator[Event | None]:
        if subscription.transport == "sse":
            return sse.iterate(self._session.http, self._connection, subscription)
        from openbell.async_client.grpc_stream import iterate  # grpc is slow to import, and optional

        return iterate(self._connection, subscription)
