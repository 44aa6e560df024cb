"""Generates docs/brokers.md from the brokers' definitions."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import partial
from typing import Final

from openbell_server.application.ports.broker import BrokerDefinition, ReplaceSupport
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.orders.broker_guarantees import IdClass, LookUp
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderType, RouteStrategy, TimeInForce
from openbell_server.transport.rest.access.brokers import BrokerBody, BrokerCredentialsBody, broker_body

_INTRODUCTION: Final = """# Brokers

On this page you find what each broker supports and guarantees. Openbell's behaviour at a broker depends on these
properties, never on its name. A running platform reports the same: `GET /v1/brokers` for any caller with a credential,
`client.brokers()` in the library, `openbell brokers` on the command line. `make generate` writes this page from the
definitions. [Add a broker](guides/add-a-broker.md) describes how to add one.

An order type, time in force or route that the broker does not support is refused with 422 `not_supported`, and so is a
quantity with more decimals than the broker accepts; an unsupported REPLACE with `replace_not_supported`. An account can
be opened only in an environment of its broker. The paper broker has four profiles; an account is opened with one of
them (`profile`, by default A).

"""
_IDS: Final = """
**Ids.** What a broker does with the id of a command:

"""
_ID_CLASSES: Final = {
    IdClass.ENFORCED: "always refuses a second command with the same id: only then a CREATE or REPLACE is resent",
    IdClass.FOR_A_WHILE: "refuses one only for some time, or while its order is open, so a resend is not safe",
    IdClass.ECHOED: "accepts both and returns the id, so an order can be found by it",
    IdClass.NONE: "has no field for an id",
}
_LOOK_UPS: Final = {
    LookUp.EVERY_ORDER: "every order by our id",
    LookUp.OPEN_ORDERS: "open orders only",
    LookUp.BROKER_ID: "by its own id only",
}
_REPLACES: Final = {
    ReplaceSupport.NATIVE_TOTAL: "yes, by the total quantity",
    ReplaceSupport.NATIVE_REMAINING: "yes, by the remaining quantity",
    ReplaceSupport.NONE: "no",
}
_NUMBERS: Final = """
**Seconds.** A feed that has not reported a command this long after its answer counts as silent. A look-up of every
order that finds nothing is evidence only this long after the command was sent.

**UNKNOWN.** The page [UNKNOWN](unknown.md) describes this state and how it ends. The sentences below are the values of
`settles_by` of an UNKNOWN action.
"""


def brokers_page(brokers: Mapping[str, BrokerDefinition]) -> str:
    bodies = [broker_body(brokers[name]) for name in sorted(brokers)]
    classes = [f"- `{each}`: it {meaning}.\n" for each, meaning in _ID_CLASSES.items()]
    return _INTRODUCTION + _table(bodies) + _IDS + "".join(classes) + _NUMBERS + "".join(map(_section, bodies))


def _table(bodies: list[BrokerBody]) -> str:
    links = [f"[{_title(each)}](#{_title(each).replace(' ', '-').lower()})" for each in bodies]
    head = f"| | {' | '.join(links)} |\n|---|{'---|' * len(bodies)}\n"
    rows = [f"| {title} | {' | '.join(show(each) for each in bodies)} |\n" for title, show in _ROWS.items()]
    return head + "".join(rows)


def _title(broker: BrokerBody) -> str:
    return broker.name if broker.profile is None else f"{broker.name} {broker.profile}"


def _section(broker: BrokerBody) -> str:
    commands = [f"- **{name}**, ids `{each.id_class}`. {each.settles_by}\n" for name, each in broker.commands.items()]
    return (
        f"\n## {_title(broker)}\n\n{_sign_in(broker.credentials)}\n\nWhat settles an UNKNOWN command:\n\n"
        f"{''.join(commands)}"
    )


def _sign_in(form: BrokerCredentialsBody | None) -> str:
    if form is None:
        return "Accounts need no credential."
    must = "must" if form.required else "may"
    fields = ", ".join(f"`{each.name}` ({each.title}{', not secret' * (not each.secret)})" for each in form.fields)
    credential = f"[credential](accounts.md#broker-credentials) of the kind `{form.kind}`"
    return f"Accounts {must} sign in with a {credential}: {fields}."


def _needed(form: BrokerCredentialsBody | None) -> str:
    if form is None:
        return "none"
    return "needed" if form.required else "optional"


def _yes(able: bool) -> str:
    return "yes" if able else "no"


def _listed(values: Iterable[StrEnum], every: type[StrEnum]) -> str:
    named = list(values)
    return "all" if named == list(every) and len(named) > _FEW else ", ".join(named)


def _id_class(broker: BrokerBody, command: ActionType) -> str:
    return f"`{broker.commands[command].id_class}`" if command in broker.commands else "–"


# Short lists are written out even if they are complete.
_FEW: Final = 2
_ROWS: Final[dict[str, Callable[[BrokerBody], str]]] = {
    "environments": lambda broker: _listed(broker.environments, Environment),
    "order types": lambda broker: _listed(broker.order_types, OrderType),
    "times in force": lambda broker: _listed(broker.times_in_force, TimeInForce),
    "default time in force": lambda broker: broker.default_time_in_force,
    "routes": lambda broker: _listed(broker.route_strategies, RouteStrategy),
    "decimals of a quantity": lambda broker: str(broker.quantity_decimals),
    "replaces": lambda broker: _REPLACES[broker.replace],
    **{f"ids of {command}": partial(_id_class, command=command) for command in ActionType},
    "looks up": lambda broker: _LOOK_UPS[broker.look_up],
    "cancels by our id": lambda broker: _yes(broker.cancels_by_client_id),
    "a cancel may be repeated": lambda broker: _yes(broker.repeats_cancels),
    "enforces valid_until": lambda broker: _yes(broker.enforces_valid_until),
    "a feed for each account": lambda broker: _yes(broker.feed.by_account),
    "names executions": lambda broker: _yes(broker.feed.names_executions),
    "reports corrections": lambda broker: _yes(broker.feed.tells_corrections),
    "feed counts as silent after, seconds": lambda broker: f"{broker.feed.echo_seconds:g}",
    "not found is evidence after, seconds": lambda broker: f"{broker.settle_seconds:g}",
    "commands in flight per account": lambda broker: str(broker.in_flight_max),
    "concurrent calls": lambda broker: str(broker.calls_at_once_max),
    "calls per second": lambda broker: "any" if (most := broker.calls_per_second_max) is None else f"{most:g}",
    "credential": lambda broker: _needed(broker.credentials),
}
