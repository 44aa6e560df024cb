"""The kinds of the paper broker: the engine itself, behind a socket that counts."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from loopbacks import Loopback
from loopbacks.engine import engine
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.brokers.paper.definition import PAPER_BROKERS
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets
from openbell_server.domain.identifiers import AccountId
from openbell_server.settings import Settings
from support.brokers.broker_writes import Write
from support.brokers.recording_proxy import BrokerSocket


@dataclass(frozen=True, slots=True)
class PaperLoopback:
    """Implements Loopback."""

    definition: BrokerDefinition
    addresses: Mapping[Environment, str]
    engine: Settings
    writes: list[Write]

    def secrets(self, account_id: AccountId) -> Secrets | None:
        """A key that says whose it is."""
        return Secrets({"key_id": f"ACCT-{account_id.hex}", "secret": "open"})


@asynccontextmanager
async def serve(broker: str, ledger_url: str) -> AsyncIterator[Loopback]:
    """One kind of it, running."""
    async with engine(ledger_url) as settings, BrokerSocket().before(settings.paper_url) as socket:
        addresses = dict.fromkeys(Environment, f"http://127.0.0.1:{socket.port}")
        yield PaperLoopback(PAPER_BROKERS[broker], addresses, settings, socket.writes)
