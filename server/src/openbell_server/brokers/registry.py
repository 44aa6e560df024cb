"""The brokers: one line each."""

from typing import Final

from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.brokers.paper.definition import PaperBroker
from openbell_server.brokers.paper.profiles import PAPER, PAPER_B, PAPER_C, PAPER_W

BROKERS: Final[dict[str, BrokerDefinition]] = {
    "paper": PaperBroker(PAPER),
    "paper-w": PaperBroker(PAPER_W),
    "paper-b": PaperBroker(PAPER_B),
    "paper-c": PaperBroker(PAPER_C),
}
