# Generated from openbell/async_client/__init__.py by make generate. Do not edit.
"""The client."""

from collections.abc import Generator, Iterator
from types import TracebackType
from typing import Self, Unpack

import httpx

from openbell.client import sse
from openbell.client.controls import ControlCalls
from openbell.client.desk_commands import DeskCalls
from openbell.client.intents import IntentCalls
from openbell.client.markets import MarketCalls
from openbell.client.organization import Accounts, ApiKeys, Audit, Operations
from openbell.client.receipts import ReceiptCalls
from openbell.client.session import Session
from openbell.client.webhooks import Webhooks
from openbell.connection import DEFAULT_TIMEOUT, connect
from openbell.events.mirror import Mirror
from openbell.events.records import Event
from openbell.events.streams import opened
from openbell.events.subscriptions import EventOptions, Subscription, Transport, subscription_of


class Client(IntentCalls, DeskCalls, ControlCalls, MarketCalls, ReceiptCalls):
    """Submits, replaces, cancels and follows intents. May be shared between threads.

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
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        super().__init__(Session(connect(api_key, url, stream_address, account_id, timeout, access_token), transport))
        self.accounts = Accounts(self._session)
        self.api_keys = ApiKeys(self._session)
        self.audit = Audit(self._session)
        self.operations = Operations(self._session)
        self.webhooks = Webhooks(self._session)

    def __repr__(self) -> str:
        return f"Client({self._connection})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._session.http.close()

    def events(self, resume_token: str | None = None, **options: Unpack[EventOptions]) -> Iterator[Event]:
        """Follow the account's events; reconnects by itself and never skips an event.

        It starts with new events, after `resume_token`, or as the option `start` defines: LIVE, PRIMED (the current
        orders and positions first) or BEGINNING. The sync client subscribes before this returns, the async client
        at the first iteration. Raises EventMissed if events were lost, and Unreachable after too many failed attempts.
        """
        return opened(self._follow(subscription_of(self._connection, resume_token, options)))

    def mirror(self, *, account_id: str | None = None, transport: Transport | None = None) -> Mirror:
        """Follow the account's open orders and positions: `with client.mirror() as mirror: …`."""
        options: EventOptions = {"account_id": account_id, "start": "PRIMED", "transport": transport}
        subscription = subscription_of(self._connection, None, options)
        return Mirror(self._follow(subscription), subscription)

    def _follow(self, subscription: Subscription) -> Generator[Event | None]:
        if subscription.transport == "sse":
            return sse.iterate(self._session.http, self._connection, subscription)
        from openbell.client.grpc_stream import iterate  # grpc is slow to import, and optional

        return iterate(self._connection, subscription)
