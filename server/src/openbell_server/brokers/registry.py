"""The registry of all brokers by name."""

from typing import Final

from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.brokers.alpaca.definition import ALPACA
from openbell_server.brokers.paper.definition import PAPER_BROKERS
from openbell_server.brokers.tradier.definition import TRADIER
from openbell_server.domain.identifiers import Symbol

BROKERS: Final[dict[str, BrokerDefinition]] = {
    **PAPER_BROKERS,
    ALPACA.name: ALPACA,
    TRADIER.name: TRADIER,
}


def spelled_at(broker: str, text: str) -> Symbol | None:
    """The canonical form of a symbol at this broker, or None if the text is not a symbol."""
    return BROKERS[broker].canonical_symbol(text)
