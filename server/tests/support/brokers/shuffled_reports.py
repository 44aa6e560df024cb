"""Histories of one order at its broker, and their reports in any order and number: the same order comes of all."""

from dataclasses import replace
from decimal import Decimal
from hashlib import sha256
from random import Random

from openbell_server.domain.orders.broker_reports import OrderReport, ReportStatus
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import Order
from support.brokers.order_model import Asked, Intent
from support.brokers.single_order_broker import AbstractBroker, Habits
from support.builders.tenant import some_terms

FIRST = some_terms(10, "1.50")
DEPTH_MAX = 20


def a_history(number: int, depth: int | None = None) -> AbstractBroker:
    """An order that was replaced up to twenty times, with fills, corrections, busts and an end; nothing was read."""
    chance = Random(f"history {number}")
    broker = AbstractBroker(FIRST, Habits(mints_ids=chance.random() < 0.7, tells_all=chance.random() < 0.3))
    broker.create()
    # Long chains are the slow ones, and few.
    replaces = depth or (DEPTH_MAX if number % 20 == 0 else 1 + number % 4)
    for _ in range(replaces + chance.randrange(8)):
        if replaces and broker.is_working:
            replaces -= 1
            quantity = max(1, int(broker.filled)) + chance.randrange(12) + (replaces > 0)
            broker.replace(some_terms(quantity, f"{2 + chance.randrange(50)}"))
        # One that is to be replaced again is not filled whole.
        most = broker.leaves - (replaces > 0)
        if broker.is_working and most > 0 and chance.random() < 0.5:
            broker.fill(1 + chance.randrange(most), 1 + chance.randrange(9))
        if (found := broker.changeable()) and chance.random() < 0.3:
            most = int(broker.live[found[0]][0]) + max(0, broker.leaves)
            broker.change(chance.choice(found[:1]), chance.choice((0, 1 + chance.randrange(most))), 3)
        if broker.ids and broker.end is None and chance.random() < 0.1:
            quantity = max(1, int(broker.filled)) + 1 + chance.randrange(4)
            broker.restate(replace(broker.terms, quantity=Decimal(quantity)))
        if broker.is_working and chance.random() < 0.1:
            broker.trigger()
    if broker.is_working and chance.random() < 0.6:
        broker.finish(chance.choice((ReportStatus.CANCELED, ReportStatus.EXPIRED, ReportStatus.REJECTED)))
        if broker.leaves > 0 and chance.random() < 0.4:
            broker.fill(1 + chance.randrange(broker.leaves), 2)
    return broker


def followed(reports: list[OrderReport]) -> Order:
    """The order after these reports."""
    intent = Intent(Order(terms=FIRST), [Asked(ActionType.CREATE)])
    for report in reports:
        intent.report(report)
    return intent.order


def shuffled(reports: list[OrderReport], chance: Random) -> list[OrderReport]:
    """All of them in any order, about every second one twice."""
    again = [report for report in reports if chance.random() < 0.5]
    return chance.sample([*reports, *again], len(reports) + len(again))


def order_hash(order: Order) -> str:
    """Of all facts; the broker's ids count as a set, because each is added when it is first told."""
    return sha256(repr(replace(order, broker_order_ids=tuple(sorted(order.broker_order_ids)))).encode()).hexdigest()


def is_true(order: Order, broker: AbstractBroker) -> bool:
    """Whether the order is what the broker knows of it."""
    ours = (order.filled_quantity, order.filled_value, order.terms, order.terms_version, order.triggered)
    theirs = (broker.filled, broker.value, broker.terms, broker.version, broker.triggered)
    return ours == theirs and (order.close_reason or "WORKING") == broker.status
