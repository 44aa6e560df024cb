"""The brokers: one line each."""

from typing import Final

from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.brokers.alpaca.definition import ALPACA
from openbell_server.brokers.paper.definition import PAPER_BROKERS
from openbell_server.brokers.tradier.definition import TRADIER

BROKERS: Final[dict[str, BrokerDefinition]] = {
    **PAPER_BROKERS,
    ALPACA.name: ALPACA,
    TRADIER.name: TRADIER,
}
