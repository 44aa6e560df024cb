"""What a scenario is: a fact in words, what a broker must offer for it, and what is done to find out."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from conformance.stage import Stage
from openbell_server.application.ports.broker import BrokerDefinition, ReplaceSupport
from openbell_server.domain.orders.broker_guarantees import IdClass, LookUp
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderType, TimeInForce

# Why a broker does not offer what a scenario is about, by its own declaration; None where it does.
Need = Callable[[BrokerDefinition], str | None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One fact."""

    name: str
    run: Callable[[Stage], Awaitable[None]]
    needs: tuple[Need, ...]
    # Whether it is among the few that a gate has time for.
    gate: bool

    def not_offered(self, broker: BrokerDefinition) -> str | None:
        """Why this broker need not do it, or None."""
        return next((why for need in self.needs if (why := need(broker)) is not None), None)


def scenario(*needs: Need, gate: bool = False) -> Callable[[Callable[[Stage], Awaitable[None]]], Scenario]:
    """Make a scenario of what is done; its fact is its name."""
    return lambda run: Scenario(run.__name__.replace("_", " "), run, needs, gate)


def replaces(broker: BrokerDefinition) -> str | None:
    return "it does not replace orders" if broker.capabilities.replace is ReplaceSupport.NONE else None


def has_client_ids(broker: BrokerDefinition) -> str | None:
    has_none = broker.capabilities.id_classes.get(ActionType.CREATE, IdClass.NONE) is IdClass.NONE
    return "it does not store client order ids" if has_none else None


def enforces_ids(broker: BrokerDefinition) -> str | None:
    return None if broker.capabilities.may_repeat(ActionType.CREATE) else "it does not reject a repeated id permanently"


def looks_up_every_order(broker: BrokerDefinition) -> str | None:
    return None if broker.capabilities.look_up is LookUp.EVERY_ORDER else "it cannot look up every order"


def repeats_cancels(broker: BrokerDefinition) -> str | None:
    return None if broker.capabilities.repeats_cancels else "a repeated cancel may have another effect"


def tells_corrections(broker: BrokerDefinition) -> str | None:
    return None if broker.capabilities.tells_corrections else "it does not report busted or corrected fills"


def leaves_doubt(broker: BrokerDefinition) -> str | None:
    """Nothing but a person can end the doubt about an order that never arrived."""
    every = broker.capabilities.look_up is LookUp.EVERY_ORDER
    return "a look-up that does not find an order is proof" if every else None


def signs_in(broker: BrokerDefinition) -> str | None:
    return "it has no sign-in" if broker.credentials is None else None


def demands_keys(broker: BrokerDefinition) -> str | None:
    demands = broker.credentials is not None and broker.credentials.required
    return None if demands else "an account can trade without a key"


def lets_keys_expire(broker: BrokerDefinition) -> str | None:
    kind = broker.credentials and broker.credentials.kind
    return None if kind == "paper_key" else "it does not report that a key has expired"


def takes(*wanted: OrderType | TimeInForce) -> Need:
    def need(broker: BrokerDefinition) -> str | None:
        able = broker.capabilities
        missing = [word for word in wanted if word not in able.order_types | able.times_in_force]
        return f"it does not accept {missing[0]}" if missing else None

    return need


def trades_fractions(broker: BrokerDefinition) -> str | None:
    return None if broker.capabilities.quantity_decimals else "it trades whole shares only"
