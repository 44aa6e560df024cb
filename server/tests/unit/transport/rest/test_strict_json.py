"""What is said about a body that is not the shape: the field, the rule, and what would pass."""

import json
from typing import Annotated
from uuid import UUID

import pytest
from msgspec import Meta, Struct

from openbell_server.domain.errors import Problem
from openbell_server.transport.rest.intents.bodies import SubmitBody
from openbell_server.transport.rest.strict_json import read_json


class Shape(Struct, forbid_unknown_fields=True):
    """One of every kind of field."""

    flag: bool = True
    number: Annotated[int, Meta(ge=1, le=9)] = 1
    names: list[str] = []
    few: Annotated[list[str], Meta(min_length=1, max_length=2)] | None = None
    id: UUID | None = None


def create(**changed: object) -> dict[str, object]:
    payload = {"symbol": "AAPL", "order_side": "BUY", "spec": {"Market": {"quantity": "1"}}, **changed}
    return {"command": {"type": "CREATE", "payload": {k: v for k, v in payload.items() if v is not ...}}}


P = "/command/payload"
DECIMAL = 'must be a string like "10.5" (a decimal above zero: no sign, no exponent, at most 18 digits on either side'
FIELDS = "must be an object with the fields command, client_reference_id, deadline, allow_duplicate, not"
SUBMITS: dict[str, tuple[object, str, str, str]] = {
    "a list": ([], "", "invalid", f"{FIELDS} a list"),
    "null": (None, "", "invalid", f"{FIELDS} null"),
    "nothing": ({}, "/command", "missing", "is missing; it must be an object whose type is one of CREATE"),
    "an unknown field": (
        {**create(), "extra/~": 1},
        "/extra~1~0",
        "unknown_field",
        "is not a field here; the fields are command, client_reference_id",
    ),
    "an unknown field that looks like our words": (
        {**create(), "x` - at `$.y": 1},
        "/x` - at `$.y",
        "unknown_field",
        "is not a field here; the fields are command, client_reference_id",
    ),
    "an unknown tag": ({"command": {"type": "DELETE"}}, "/command/type", "invalid", "must be one of CREATE"),
    "no tag": ({"command": {}}, "/command/type", "missing", "is missing; it must be one of CREATE"),
    "a tag that is a list": ({"command": {"type": []}}, "/command/type", "invalid", "must be one of CREATE"),
    "a number": (create(spec={"Market": {"quantity": 1}}), f"{P}/spec/Market/quantity", "invalid", DECIMAL),
    "a sign": (create(spec={"Market": {"quantity": "-1"}}), f"{P}/spec/Market/quantity", "invalid", DECIMAL),
    "no quantity": (create(spec={"Market": {}}), f"{P}/spec/Market/quantity", "missing", "is missing; it must be a st"),
    "two kinds": (
        create(spec={"Market": {"quantity": "1"}, "Stop": {"quantity": "1", "stop_price": "1"}}),
        f"{P}/spec",
        "invalid",
        "must have exactly one of Market, Limit, Stop, StopLimit",
    ),
    "a side": (create(order_side="buy"), f"{P}/order_side", "invalid", "must be one of BUY, SELL, SELL_SHORT"),
    "no side": (create(order_side=...), f"{P}/order_side", "missing", "is missing; it must be one of BUY, SELL"),
    "a spec that is text": (
        create(spec="x"),
        f"{P}/spec",
        "invalid",
        "must be an object with the fields Market, Limit",
    ),
}


@pytest.mark.parametrize("name", SUBMITS)
def test_a_refusal_names_the_field_the_rule_and_what_would_pass(name: str) -> None:
    body, pointer, code, message = SUBMITS[name]
    with pytest.raises(Problem) as refused:
        read_json(json.dumps(body).encode(), SubmitBody)
    (wrong,) = refused.value.errors
    assert (wrong.pointer, wrong.code) == (pointer, code)
    assert wrong.message.startswith(message)
    assert refused.value.code == "invalid_command"


@pytest.mark.parametrize(
    ("body", "pointer", "message"),
    [
        ({"flag": "yes"}, "/flag", "must be true or false, not a string"),
        ({"number": 10}, "/number", "must be a whole number from 1 to 9"),
        ({"number": "1"}, "/number", "must be a whole number from 1 to 9, not a string"),
        ({"names": ["a", 1]}, "/names/1", "must be a string, not a number"),
        ({"names": {}}, "/names", "must be a list, each item a string, not an object"),
        ({"few": ["a", "b", "c"]}, "/few", "must be a list of at least 1 and at most 2, each item a string"),
        ({"id": "x"}, "/id", 'must be a UUID like "01981d3c-7a00-7000-8000-000000000003"'),
    ],
    ids=str,
)
def test_every_kind_of_field_says_what_would_pass(body: object, pointer: str, message: str) -> None:
    with pytest.raises(Problem) as refused:
        read_json(json.dumps(body).encode(), Shape)
    (wrong,) = refused.value.errors
    assert (wrong.pointer, wrong.message) == (pointer, message)
