"""Alpaca on this machine: its paper and its live address, with one engine behind both."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import httpx

from loopbacks import Loopback
from loopbacks.alpaca_books import books
from loopbacks.alpaca_engine import PaperEngine
from loopbacks.engine import engine
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.intents import ActionType
from openbell_server.settings import Settings
from openbell_torture.alpaca.application import AlpacaApplication, Asked
from openbell_torture.alpaca.wire import key_id_of
from openbell_torture.serving import serving
from support.brokers.broker_writes import Write

# Longer than the engine lets anybody hang.
_ENGINE_SECONDS: Final = 15
_COMMANDS: Final = {"POST": ActionType.CREATE, "PATCH": ActionType.REPLACE, "DELETE": ActionType.CANCEL}


@dataclass(frozen=True, slots=True)
class AlpacaLoopback:
    """Implements Loopback."""

    addresses: Mapping[Environment, str]
    engine: Settings
    writes: list[Write]

    @property
    def definition(self) -> BrokerDefinition:
        """The adapter that is tried against it."""
        return BROKERS["alpaca"]

    def secrets(self, account_id: AccountId, environment: Environment = Environment.PAPER) -> Secrets | None:
        """A key says whose it is; each address lets in its own only."""
        return Secrets(
            {
                "key_id": key_id_of(account_id, is_live=environment is Environment.LIVE),
                "secret": f"secret of {account_id}",
            }
        )


class _Writes:
    """Implements Observer: notes every command as it arrives, in the order of both addresses."""

    def __init__(self, writes: list[Write]) -> None:
        self._writes = writes

    def asked(self, asked: Asked) -> None:
        if asked.method not in _COMMANDS:
            return
        action_type, fields = _COMMANDS[asked.method], asked.fields
        if not asked.is_whole:
            self._writes.append(Write(action_type, str(asked.account_id), asked.name, whole=False))
            return
        known = {
            "client_order_id": fields.get("client_order_id"),
            "symbol": fields.get("symbol"),
            "side": str(fields["side"]).upper() if fields.get("side") else None,
            "quantity": _text(fields.get("qty")),
            "limit_price": _text(fields.get("limit_price")),
        }
        body = {key: value for key, value in known.items() if value is not None}
        self._writes.append(Write(action_type, str(asked.account_id), asked.name, body))

    def answered(self, of: object, status: int, body: object) -> None: ...

    def streamed(self, body: object) -> None: ...


def _text(given: object) -> str | None:
    return None if given is None else str(given)


@asynccontextmanager
async def serve(broker: str, ledger_url: str) -> AsyncIterator[Loopback]:
    """Both addresses, until the end."""
    assert broker == "alpaca"
    writes: list[Write] = []
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=2)
    async with (
        engine(ledger_url) as settings,
        books(ledger_url) as kept,
        httpx.AsyncClient(
            base_url=settings.paper_url, timeout=_ENGINE_SECONDS, limits=limits, trust_env=False
        ) as client,
        serving(AlpacaApplication(PaperEngine(client, kept), _Writes(writes))) as paper,
        serving(AlpacaApplication(PaperEngine(client, kept), _Writes(writes), is_live=True)) as live,
    ):
        yield AlpacaLoopback({Environment.PAPER: paper, Environment.LIVE: live}, settings, writes)
