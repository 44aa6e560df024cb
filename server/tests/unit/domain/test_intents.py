"""Hashes of commands: one command is one hash however it is spelled, and every field counts."""

import string
from dataclasses import replace
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbell_server.domain.hash_chains import canonical_bytes
from openbell_server.domain.identifiers import IntentId, Symbol
from openbell_server.domain.orders.intents import Command, CreateIntent, ReplaceIntent, command_hash
from openbell_server.domain.orders.order_terms import (
    OrderSide,
    OrderSpec,
    OrderType,
    ReplacementSpec,
    RouteStrategy,
    TimeInForce,
)
from support.builders.tenant import a_cancel, a_limit_create, a_market_create, a_replace

texts = st.one_of(st.none(), st.text(), st.text(alphabet=string.digits + ":-"))
lists = st.lists(texts, max_size=5)
FIRST, SECOND = (IntentId(UUID(int=number)) for number in (1, 2))
STOP_LIMIT = OrderSpec(
    order_type=OrderType.STOP_LIMIT,
    quantity=Decimal(10),
    limit_price=Decimal("1.5"),
    stop_price=Decimal(2),
    time_in_force=TimeInForce.DAY,
)


@given(lists, lists)
def test_two_lists_of_fields_never_give_the_same_bytes(first: list[str | None], second: list[str | None]) -> None:
    assert (canonical_bytes(*first) == canonical_bytes(*second)) == (first == second)


@given(st.lists(st.sampled_from([None, "", "-", "0:", "1:-", ":", "2:", "1", "é"]), max_size=4), lists)
def test_fields_that_look_like_the_format_are_kept_apart(tricky: list[str | None], other: list[str | None]) -> None:
    assert (canonical_bytes(*tricky) == canonical_bytes(*other)) == (tricky == other)


def of(spec: OrderSpec) -> CreateIntent:
    return replace(a_market_create(), spec=spec)


@pytest.mark.parametrize(("one", "other"), [("1.50", "1.5"), ("10", "10.000"), ("100", "100.0"), ("0.10", "0.1")])
def test_two_spellings_of_a_decimal_are_one_command(one: str, other: str) -> None:
    assert command_hash(a_limit_create(one)) == command_hash(a_limit_create(other))
    assert command_hash(a_market_create(one)) == command_hash(a_market_create(other))
    assert command_hash(a_replace(FIRST, one)) == command_hash(a_replace(FIRST, other))
    spellings = [replace(STOP_LIMIT, stop_price=Decimal(text)) for text in (one, other)]
    assert len({command_hash(of(spec)) for spec in spellings}) == 1


def test_decimals_that_differ_in_their_last_digit_are_two_commands() -> None:
    digits = "123456789012345678.12345678901234567"
    assert command_hash(a_market_create(digits + "1")) != command_hash(a_market_create(digits + "2"))
    assert command_hash(a_limit_create(digits + "1")) != command_hash(a_limit_create(digits + "2"))
    stops = [replace(STOP_LIMIT, stop_price=Decimal(digits + last)) for last in "12"]
    assert len({command_hash(of(spec)) for spec in stops}) == 2


CHANGED: dict[str, Command] = {
    "nothing": of(STOP_LIMIT),
    "symbol": replace(of(STOP_LIMIT), symbol=Symbol("MSFT")),
    "order_side": replace(of(STOP_LIMIT), order_side=OrderSide.SELL),
    "route_strategy": replace(of(STOP_LIMIT), route_strategy=RouteStrategy.IEX),
    "client_reference_id": replace(of(STOP_LIMIT), client_reference_id="r"),
    "an empty client_reference_id": replace(of(STOP_LIMIT), client_reference_id=""),
    "quantity": of(replace(STOP_LIMIT, quantity=Decimal(11))),
    "limit_price": of(replace(STOP_LIMIT, limit_price=Decimal(3))),
    "stop_price": of(replace(STOP_LIMIT, stop_price=Decimal(3))),
    "both prices": of(replace(STOP_LIMIT, limit_price=Decimal(2), stop_price=Decimal("1.5"))),
    "time_in_force": of(replace(STOP_LIMIT, time_in_force=TimeInForce.EXT)),
    "kind limit": of(replace(STOP_LIMIT, order_type=OrderType.LIMIT, stop_price=None)),
    "kind stop": of(replace(STOP_LIMIT, order_type=OrderType.STOP, limit_price=None)),
    "kind stop at the limit's price": of(
        replace(STOP_LIMIT, order_type=OrderType.STOP, limit_price=None, stop_price=Decimal("1.5"))
    ),
    "kind market": of(replace(STOP_LIMIT, order_type=OrderType.MARKET, limit_price=None, stop_price=None)),
    "command": a_cancel(FIRST),
    "a replace": a_replace(FIRST),
    "ref_intent_id of a replace": a_replace(SECOND),
    "price of a replace": a_replace(FIRST, price="1.76"),
    "quantity of a replace": a_replace(FIRST, quantity="13"),
    "time_in_force of a replace": a_replace(FIRST, time_in_force=TimeInForce.DAY),
    "reference of a replace": replace(a_replace(FIRST), client_reference_id="r"),
    "kind of a replace": ReplaceIntent(
        ref_intent_id=FIRST,
        spec=ReplacementSpec(order_type=OrderType.STOP, quantity=Decimal(12), stop_price=Decimal("1.75")),
    ),
    "ref_intent_id": a_cancel(SECOND),
    "reference of a cancel": replace(a_cancel(FIRST), client_reference_id="r"),
}


def test_every_changed_field_changes_the_hash() -> None:
    names = {command_hash(command): name for name, command in CHANGED.items()}
    assert sorted(names.values()) == sorted(CHANGED)
