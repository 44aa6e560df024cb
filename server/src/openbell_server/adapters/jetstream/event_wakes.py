"""Forwards notifications that an account has new events."""

import contextlib
from collections.abc import Callable
from uuid import UUID

from nats.aio.msg import Msg

from openbell_server.adapters.jetstream import subjects
from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.domain.identifiers import AccountId


class EventWakes:
    """Implements Wakes; work messages count too, because an accepted command is an event."""

    def __init__(self, connection: JetStreamConnection) -> None:
        self._listeners: list[Callable[[AccountId], None]] = []
        connection.on(subjects.ALL_EVENT_WAKES, self._on_message)
        connection.on(subjects.ALL_WORK, self._on_message)

    def listen(self, notify: Callable[[AccountId], None]) -> None:
        self._listeners.append(notify)

    async def _on_message(self, message: Msg) -> None:
        with contextlib.suppress(ValueError):
            account_id = AccountId(UUID(message.subject.rsplit(".", 1)[-1]))
            for notify in self._listeners:
                notify(account_id)
