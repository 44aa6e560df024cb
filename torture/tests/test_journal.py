"""What a bot knows of its orders."""

from decimal import Decimal

from openbell_torture.journal import Journal


def order(status: str, filled: str = "0") -> dict[str, object]:
    return {"id": "1", "client_order_id": "a", "status": status, "filled_qty": filled}


def heard(*messages: object) -> tuple[str, Decimal]:
    journal = Journal()
    for message in messages:
        journal.streamed(message)
    return journal.known["1"].status, journal.known["1"].filled


def test_an_order_is_found_in_an_answer_a_list_and_a_message() -> None:
    assert heard(order("new")) == ("new", Decimal(0))
    assert heard([order("new")]) == ("new", Decimal(0))
    assert heard({"event": "new", "order": order("new")}) == ("new", Decimal(0))


def test_the_last_that_was_told_counts() -> None:
    assert heard(order("new"), order("canceled")) == ("canceled", Decimal(0))
    assert heard(order("canceled"), order("filled", "10")) == ("filled", Decimal(10))


def test_a_message_that_was_overtaken_changes_nothing() -> None:
    assert heard(order("filled", "10"), order("new")) == ("filled", Decimal(10))


def test_what_is_no_order_is_passed_over() -> None:
    journal = Journal()
    journal.streamed([{"qty": "1"}, None, "text", {"order": {"id": "1"}}])
    assert journal.known == {}
