"""The comparison of both ledgers: it agrees with true books, and every forged one is found out."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest

from openbell import Probe, Reason, Unknown
from openbell_server.devtools.demo.ledgers import Books, Finding, compare
from openbell_server.domain.orders.broker_reports import ReportStatus
from openbell_server.domain.orders.order_terms import OrderSide
from support.builders.ledger_books import NOON, create, order, shown

FILLED, CANCELED, ABSENT, DOUBTED, UNSENT, REFUSED = "filled", "canceled", "absent", "doubted", "unsent", "refused"


def true_books() -> Books:
    filled, canceled, doubted = create(FILLED, 11), create(CANCELED, 12), create(DOUBTED, 14, "UNKNOWN")
    absent = create(ABSENT, 13, "FAILED", Reason(code="NOT_AT_BROKER"))
    unsent = create(UNSENT, 15, "SKIPPED", Reason(code="SUPERSEDED"))
    refused = create(REFUSED, 16, "REFUSED", Reason(code="BROKER_REFUSED", broker_code="expired"))
    cancel = msgspec.structs.replace(canceled, id=str(UUID(int=22)), seq=2, action_type="CANCEL")
    evidence = Unknown(since=NOON, probes=(Probe(at=NOON, found=False),))
    fill = {"filled_quantity": Decimal(10), "average_price": Decimal("99.5"), "broker_order_ids": ("P1",)}
    return Books(
        accepted=frozenset({FILLED, CANCELED, ABSENT, DOUBTED, UNSENT, REFUSED}),
        actions=[filled, canceled, absent, doubted, unsent, refused, cancel],
        intents={
            FILLED: shown(filled, "FILLED", **fill),
            CANCELED: shown(cancel, "CANCELED", broker_order_ids=("P2",)),
            ABSENT: shown(absent, "FAILED"),
            DOUBTED: shown(doubted, "UNKNOWN", certainty="UNKNOWN", unknown=evidence),
            UNSENT: shown(unsent, "SKIPPED"),
            REFUSED: shown(refused, "REJECTED"),
        },
        orders=[order(11, 1, ReportStatus.FILLED, "4", "6"), order(12, 2, ReportStatus.CANCELED)],
        repeated_submits=0,
    )


def with_execution(books: Books, intent_id: str, **changes: Any) -> Books:
    latest = books.intents[intent_id]
    assert latest.execution is not None
    forged = msgspec.structs.replace(latest, execution=msgspec.structs.replace(latest.execution, **changes))
    return replace(books, intents={**books.intents, intent_id: forged})


def with_first_order(books: Books, **changes: Any) -> Books:
    return replace(books, orders=[msgspec.structs.replace(books.orders[0], **changes), *books.orders[1:]])


def test_an_order_without_an_id_may_be_what_became_of_one_that_is_unknown() -> None:
    books = true_books()
    nameless = order(99, 9, ReportStatus.FILLED, "10")
    nameless = msgspec.structs.replace(nameless, client_order_id="")
    assert compare(replace(books, orders=[*books.orders, nameless])).agree
    once_too_often = compare(replace(books, orders=[*books.orders, nameless, nameless]))
    assert len(once_too_often.findings[Finding.LOST]) == 1
    other = msgspec.structs.replace(nameless, symbol="MSFT")
    assert len(compare(replace(books, orders=[*books.orders, other])).findings[Finding.LOST]) == 1


def test_true_books_agree_and_every_intent_is_accounted_for() -> None:
    comparison = compare(true_books())
    assert comparison.agree
    counts = {finding: len(found) for finding, found in comparison.findings.items() if found}
    assert counts == {Finding.PROVEN_ABSENT: 1, Finding.UNKNOWN: 1, Finding.REFUSED: 1, Finding.UNSENT: 1}
    assert (comparison.ours, comparison.ours.states) == (comparison.theirs, {"FILLED": 1, "CANCELED": 1})
    assert comparison.ours.filled_quantity == 10


def replaced_books(state: str, quantity: str) -> Books:
    """The order that filled was to be replaced by 12, and the broker has this much."""
    books = true_books()
    replacing = msgspec.structs.replace(
        books.actions[0], id=str(UUID(int=31)), seq=2, action_type="REPLACE", quantity=Decimal(12), status=state
    )
    return replace(with_first_order(books, quantity=quantity), actions=[*books.actions, replacing])


@pytest.mark.parametrize(
    ("state", "quantity", "agree"),
    [
        ("ACKED", "12", True),
        ("ACKED", "10", False),
        ("REFUSED", "10", True),
        ("REFUSED", "12", False),
        ("SKIPPED", "10", True),
        ("FAILED", "12", False),
    ],
)
def test_a_replace_that_was_taken_is_what_the_broker_must_have(state: str, quantity: str, *, agree: bool) -> None:
    assert compare(replaced_books(state, quantity)).agree == agree


def test_an_order_in_doubt_agrees_whether_the_broker_has_it_or_not() -> None:
    books = true_books()
    there = replace(books, orders=[*books.orders, order(14, 3, ReportStatus.FILLED, "10")])
    assert compare(there).agree
    assert len(compare(there).findings[Finding.UNKNOWN]) == 1


FORGERIES: dict[str, tuple[Finding, Callable[[Books], Books]]] = {
    "the broker has one client order id twice": (
        Finding.DOUBLED,
        lambda books: replace(books, orders=[*books.orders, order(11, 3, ReportStatus.FILLED, "10")]),
    ),
    "the broker has an order of the intent's cancel too": (
        Finding.DOUBLED,
        lambda books: replace(books, orders=[*books.orders, order(22, 3, ReportStatus.WORKING)]),
    ),
    "we name two orders for one intent": (
        Finding.DOUBLED,
        lambda books: with_execution(books, FILLED, broker_order_ids=("P1", "P3")),
    ),
    "an order in doubt is there twice": (
        Finding.DOUBLED,
        lambda books: replace(
            books, orders=[*books.orders, *(order(14, number, ReportStatus.WORKING) for number in (3, 4))]
        ),
    ),
    "we say filled and the broker has none": (
        Finding.LOST,
        lambda books: replace(books, orders=books.orders[1:]),
    ),
    "the broker has an order that we do not show": (
        Finding.LOST,
        lambda books: replace(books, orders=[*books.orders, order(99, 3, ReportStatus.FILLED, "10")]),
    ),
    "we say failed and the broker has it": (
        Finding.LOST,
        lambda books: replace(books, orders=[*books.orders, order(13, 3, ReportStatus.FILLED, "10")]),
    ),
    "we say cancelled unsent and the broker has it": (
        Finding.LOST,
        lambda books: replace(books, orders=[*books.orders, order(15, 3, ReportStatus.WORKING)]),
    ),
    "we accepted an intent and do not show it": (
        Finding.LOST,
        lambda books: replace(books, accepted=books.accepted | {"vanished"}),
    ),
    "an intent without an execution": (
        Finding.LOST,
        lambda books: replace(books, intents={k: v for k, v in books.intents.items() if k != FILLED}),
    ),
    "other filled quantity": (
        Finding.DISAGREEING,
        lambda books: with_execution(books, FILLED, filled_quantity=Decimal(9)),
    ),
    "fills that do not add up": (
        Finding.DISAGREEING,
        lambda books: with_first_order(books, executions=books.orders[0].executions[:1]),
    ),
    "other average price": (
        Finding.DISAGREEING,
        lambda books: with_execution(books, FILLED, average_price=Decimal("99.4")),
    ),
    "other state": (Finding.DISAGREEING, lambda books: with_execution(books, CANCELED, status="NEW")),
    "other side": (Finding.DISAGREEING, lambda books: with_first_order(books, side=OrderSide.SELL)),
    "other limit price": (Finding.DISAGREEING, lambda books: with_first_order(books, limit_price="1.5")),
    "other symbol": (Finding.DISAGREEING, lambda books: with_first_order(books, symbol="MSFT")),
    "other account": (Finding.DISAGREEING, lambda books: with_first_order(books, account_id=UUID(int=9))),
    "other broker's id": (Finding.DISAGREEING, lambda books: with_first_order(books, broker_order_id="P7")),
    "failed without a proof": (
        Finding.DISAGREEING,
        lambda books: replace(
            books, actions=[msgspec.structs.replace(action, reason=None) for action in books.actions]
        ),
    ),
    "still queued": (Finding.UNFINISHED, lambda books: with_execution(books, FILLED, status="PENDING_NEW")),
}


@pytest.mark.parametrize("forgery", sorted(FORGERIES))
def test_a_forged_book_is_found_out(forgery: str) -> None:
    finding, forge = FORGERIES[forgery]
    comparison = compare(forge(true_books()))
    assert not comparison.agree
    assert len(comparison.findings[finding]) == 1


def test_an_order_that_the_broker_was_sent_twice_is_found_though_it_refused_the_second() -> None:
    comparison = compare(replace(true_books(), repeated_submits=1))
    assert not comparison.agree
    assert len(comparison.findings[Finding.DOUBLED]) == 1
