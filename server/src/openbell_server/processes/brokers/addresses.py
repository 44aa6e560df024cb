"""The addresses of brokers: their own, unless the operator configures others."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.brokers.paper.profiles import PROFILES
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.errors import OperatorError
from openbell_server.settings import Settings

_VARIABLE: Final = "OPENBELL_BROKER_ADDRESSES"


def broker_addresses(settings: Settings, brokers: Mapping[str, BrokerDefinition]) -> dict[str, dict[Environment, str]]:
    """Addresses by broker and environment; raises OperatorError for a setting that could send orders to the wrong
    environment.
    """
    own = {name: broker for name, broker in brokers.items() if name not in PROFILES}
    for name, places in settings.broker_addresses.items():
        if name in PROFILES:
            raise OperatorError(f"{_VARIABLE} names {name}, which is found by OPENBELL_PAPER_HOST and …_PORT.")
        if name not in own:
            known = ", ".join(sorted(own)) or "none"
            raise OperatorError(f"{_VARIABLE} names an unknown broker, {name}; known brokers: {known}.")
        for environment, address in places.items():
            _require_place(own[name], environment, address)
    return {
        name: dict.fromkeys(Environment, settings.paper_url)
        if name in PROFILES
        else {**broker.addresses, **settings.broker_addresses.get(name, {})}
        for name, broker in brokers.items()
    }


def _require_place(broker: BrokerDefinition, environment: Environment, address: str) -> None:
    """Reject an invalid address for this environment; it may contain a password, so it is not shown."""
    able = broker.capabilities.environments
    if environment not in able:
        raise OperatorError(f"{_VARIABLE}: {broker.name} trades in {' and '.join(sorted(able))}, not in {environment}.")
    host = _host(address)
    if host is None:
        raise OperatorError(f"{_VARIABLE}: the address of {broker.name} for {environment} must be http(s)://host.")
    for other, own in broker.addresses.items():
        if other is not environment and host == _host(own) != _host(broker.addresses.get(environment, "")):
            raise OperatorError(
                f"{_VARIABLE}: the address of {broker.name} for {environment} is the broker's own for {other}; orders "
                f"of {environment} accounts must not go there."
            )


def _host(address: str) -> str | None:
    """The normalized host, or None if this is not an address."""
    try:
        parts = urlsplit(address)
        named = parts.scheme in {"http", "https"} and parts.port != 0
        return parts.hostname.rstrip(".") if named and parts.hostname else None
    except ValueError:
        return None
