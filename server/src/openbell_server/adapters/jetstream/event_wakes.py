"""Passes on the hints that an account has new events."""

import contextlib
from collections.abc import Callable
from uuid import UUID

from nats.aio.msg import Msg

from openbell_server.adapters.jetstream import subjects
from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.domain.identifiers import AccountId


class EventWakes:
    """Implements Wakes; work notices count too, since an accepted command is an event."""

    def __init__(self, connection: JetStreamConnection) -> None:
        """Listen on the connection."""
        self._listeners: list[Callable[[AccountId], None]] = []
        connection.on(subjects.ALL_EVENT_WAKES, self._hear)
        connection.on(subjects.ALL_WORK, self._hear)

    def listen(self, hear: Callable[[AccountId], None]) -> None:
        """Call for every hint from now on."""
        self._listeners.append(hear)

    async def _hear(self, message: Msg) -> None:
        with contextlib.suppress(ValueError):
            account_id = AccountId(UUID(message.subject.rsplit(".", 1)[-1]))
            for hear in self._listeners:
                hear(account_id)
