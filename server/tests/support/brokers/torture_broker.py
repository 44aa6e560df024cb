"""The simulated Alpaca of openbell-torture as the broker of a platform: each account has its own engine and faults."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from openbell_torture.alpaca.application import AlpacaApplication, Asked
from openbell_torture.alpaca.wire import account_of
from openbell_torture.faults import Plan
from openbell_torture.faulty_engine import FaultyEngine

KEY_ID = b"apca-api-key-id"


class _Nobody:
    """Implements Observer."""

    def asked(self, asked: Asked) -> object:
        """Notes nothing."""

    def answered(self, of: object, status: int, body: object) -> None:
        """Notes nothing."""

    def streamed(self, body: object) -> None:
        """Notes nothing."""


@dataclass
class TortureBroker:
    """An ASGI application."""

    engines: dict[UUID, FaultyEngine] = field(default_factory=dict)
    _applications: dict[UUID, AlpacaApplication] = field(default_factory=dict)

    def open_account(self, account_id: UUID, plan: Plan) -> None:
        engine = self.engines[account_id] = FaultyEngine(plan, lambda *_: None)
        self._applications[account_id] = AlpacaApplication(engine, _Nobody())

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await self._stream(scope, receive, send)
            return
        key_id = dict(scope["headers"]).get(KEY_ID, b"").decode()
        await self._applications[_account(key_id)](scope, receive, send)

    async def _stream(self, scope: Any, receive: Any, send: Any) -> None:
        """The first message names the account: it is read here and given to the account's application again."""
        first = await receive()
        await send({"type": "websocket.accept"})
        message = await receive()
        if message["type"] != "websocket.receive":
            return
        again = [message, first]

        async def receive_again() -> Any:
            return again.pop() if again else await receive()

        async def send_but_accept(sent: Any) -> None:
            if sent["type"] != "websocket.accept":
                await send(sent)

        asked = json.loads(message.get("text") or message["bytes"])
        application = self._applications[_account(_key_in(asked))]
        await application(scope, receive_again, send_but_accept)


def _key_in(asked: Mapping[str, Any]) -> str:
    return str(asked.get("key") or asked["data"]["key_id"])


def _account(key_id: str) -> UUID:
    account_id = account_of(key_id)
    assert account_id is not None, f"{key_id} is no key of an account"
    return account_id
