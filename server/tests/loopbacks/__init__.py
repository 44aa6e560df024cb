"""Brokers on this machine that speak a real broker's language, with the paper broker's engine behind them."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from types import ModuleType
from typing import Protocol

from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets
from openbell_server.domain.identifiers import AccountId
from openbell_server.settings import Settings
from support.brokers.broker_writes import Write


class Loopback(Protocol):
    """One that runs. Prices, faults, cash, bells and the ledger are those of its engine, at the same account ids."""

    @property
    def definition(self) -> BrokerDefinition:
        """The broker that it stands for."""

    @property
    def addresses(self) -> Mapping[Environment, str]:
        """Where an executor finds it."""

    @property
    def engine(self) -> Settings:
        """Where the paper broker behind it is, for whoever moves its prices or reads its ledger."""

    @property
    def writes(self) -> list[Write]:
        """Every command whose bytes reached its socket, in order."""

    def secrets(self, account_id: AccountId) -> Secrets | None:
        """What this account signs in with; None where there is nothing to sign in to."""


def module_of(broker: str) -> ModuleType:
    """The module of a broker's loopback: `loopbacks.<broker>`; the kinds of the paper broker share one."""
    name = "paper" if broker.partition("-")[0] == "paper" else broker.replace("-", "_")
    return import_module(f"loopbacks.{name}")


def loopback(broker: str, ledger_url: str) -> AbstractAsyncContextManager[Loopback]:
    """A broker's loopback, running, with its books in an empty database; each module has one `serve`."""
    made: AbstractAsyncContextManager[Loopback] = module_of(broker).serve(broker, ledger_url)
    return made
