"""The rows of the demo's table: every number follows from the broker's book, whatever a client takes for true."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import msgspec

from openbell import Reason
from openbell_server.brokers.paper.wire import LedgerOrderBody
from openbell_server.devtools.demo.arms import Arm, count, count_ours
from openbell_server.devtools.demo.ledgers import Books, terms_at_broker
from openbell_server.devtools.demo.scenario import Ask, plan
from openbell_server.domain.orders.broker_reports import ReportStatus
from openbell_server.domain.orders.order_terms import OrderSide, OrderType
from support.builders.ledger_books import ACCOUNT, create, order, shown

ASKS = list(plan([str(ACCOUNT)], 40))


def booked(ask: Ask, number: int) -> LedgerOrderBody:
    """The ask as the broker's book has it."""
    limit_price = getattr(ask.spec, "price", None)
    return msgspec.structs.replace(
        order(number, number, ReportStatus.WORKING),
        symbol=ask.symbol,
        side=OrderSide(ask.side),
        type=OrderType.MARKET if limit_price is None else OrderType.LIMIT,
        quantity=str(ask.spec.quantity),
        limit_price=None if limit_price is None else str(limit_price),
    )


BOOK = [booked(ask, number) for number, ask in enumerate(ASKS, 1)]
PLACED = frozenset(map(terms_at_broker, BOOK))


def books(orders: Sequence[LedgerOrderBody]) -> Books:
    """Ours shows that every order of BOOK was placed, whatever the broker has."""
    creates = [
        msgspec.structs.replace(
            create(str(number), number),
            symbol=ask.symbol,
            order_side=ask.side,
            quantity=ask.spec.quantity,
            limit_price=getattr(ask.spec, "price", None),
        )
        for number, ask in enumerate(ASKS, 1)
    ]
    intents = {action.intent_id: shown(action, "NEW") for action in creates}
    return Books(accepted=frozenset(intents), actions=creates, intents=intents, orders=list(orders), repeated_submits=0)


def test_no_two_orders_of_the_demo_have_the_same_terms() -> None:
    asks = plan([str(UUID(int=number)) for number in range(4)], 1000)
    assert len({(ask.symbol, ask.side, str(ask.spec)) for ask in asks}) == 1000


def test_the_openbell_row_is_counted_from_the_brokers_book() -> None:
    assert count_ours(ASKS, books(BOOK)) == Arm("Openbell", asked=40, at_broker=40, doubled=0, lost=0)
    twice = msgspec.structs.replace(BOOK[7], broker_order_id="P99", client_order_id="another")
    assert count_ours(ASKS, books([*BOOK, twice])) == Arm("Openbell", asked=40, at_broker=41, doubled=1, lost=0)
    assert count_ours(ASKS, books(BOOK[1:])) == Arm("Openbell", asked=40, at_broker=39, doubled=0, lost=1)
    assert count_ours(ASKS, books([])) == Arm("Openbell", asked=40, at_broker=0, doubled=0, lost=40)


def test_an_order_that_we_call_unknown_or_failed_and_the_broker_has_is_lost() -> None:
    for state, certainty in (("UNKNOWN", "UNKNOWN"), ("FAILED", "CONFIRMED")):
        true = books(BOOK)
        first = msgspec.structs.replace(true.actions[0], reason=Reason(code="NOT_AT_BROKER"))
        wrong = replace(true, intents={**true.intents, "1": shown(first, state, certainty=certainty)})
        assert count_ours(ASKS, wrong).lost == 1
        assert count_ours(ASKS, replace(wrong, orders=BOOK[1:])).lost == 0


def test_what_a_plain_client_has_at_the_broker_twice_thrice_or_by_mistake_is_counted() -> None:
    copies = [msgspec.structs.replace(BOOK[3], broker_order_id=f"P{number}") for number in (90, 91)]
    assert count("plain", ASKS, PLACED, [*BOOK, *copies]) == Arm("plain", asked=40, at_broker=42, doubled=1, lost=0)
    given_up = PLACED - {terms_at_broker(BOOK[3])}
    assert count("plain", ASKS, given_up, [*BOOK, *copies]).lost == 1
    unasked = msgspec.structs.replace(BOOK[3], quantity="77777")
    assert count("plain", ASKS, PLACED, [*BOOK, unasked]).lost == 1
