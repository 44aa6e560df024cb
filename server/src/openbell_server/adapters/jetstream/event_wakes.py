"""Wakes whoever follows an account when a hint says that it has new events."""

import asyncio
import contextlib
from collections import defaultdict
from uuid import UUID

from nats.aio.msg import Msg

from openbell_server.adapters.jetstream import subjects
from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.domain.identifiers import AccountId


class EventWakes:
    """Implements Wakes; work notices count too, since an accepted command is an event."""

    def __init__(self, connection: JetStreamConnection) -> None:
        """Listen on the connection."""
        self._waiting: dict[AccountId, set[asyncio.Event]] = defaultdict(set)
        connection.on(subjects.ALL_EVENT_WAKES, self._hear)
        connection.on(subjects.ALL_WORK, self._hear)

    async def _hear(self, message: Msg) -> None:
        with contextlib.suppress(ValueError):
            account_id = AccountId(UUID(message.subject.rsplit(".", 1)[-1]))
            for waiter in self._waiting.get(account_id, ()):
                waiter.set()

    async def wait(self, account_id: AccountId, seconds: float) -> None:
        """Return at a hint, or after the time."""
        waiter = asyncio.Event()
        self._waiting[account_id].add(waiter)
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(waiter.wait(), seconds)
        finally:
            self._waiting[account_id].discard(waiter)
            if not self._waiting[account_id]:
                del self._waiting[account_id]
