"""One vocabulary: what the OpenAPI document and the proto call things, and in which shape lists come."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from openbell.wire import trading_pb2 as pb
from openbell_server.transport.rest.events.routes import STARTS, TYPES

ROOT = Path(__file__).parents[5]
DOCUMENT: dict[str, Any] = msgspec.json.decode((ROOT / "docs" / "openapi.json").read_bytes())
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
# A name that is not used → the one that is.
IDEAS = {
    "state": "status",
    "trading_account_id": "account_id",
    "created_after": "since",
    "created_before": "until",
    "from": "since",
    "to": "until",
    "events": "data",
    "items": "data",
    "next_token": "next_cursor",
    "last_token": "last_cursor",
    "cursor": "next_cursor",
    "body": "receipt",
    "side": "order_side",
    "qty": "quantity",
    "set_by": "principal_type and principal_id",
    "changed_by": "principal_type and principal_id",
    "told_quantity": "reported_quantity",
    "told_price": "reported_price",
    "door_opened_at": "dispatched_at",
}
# As the contract has it.
PROTO_EXCEPTIONS = {("Subscribe", "trading_account_id")}
# Values that the contract, or its family of values, has in small letters; permissions and names of fields.
SMALL = {
    *("paper", "live"),
    *("pending", "processing", "completed", "failed"),
    *("last_hour", "last_day", "last_week", "last_month", "all"),
    *("accounts", "intents", "users"),
    *("asc", "desc"),
    "ok",
    # As SQL has them.
    *("asc", "desc"),
    *SCHEMAS["TimeControlRequest"]["properties"],
}
MOMENTS = re.compile(r"\w+_at|at|as_of|since|until|deadline|\w+_since|\w+_until")


def schemas(part: Any, inside: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema of the document, with the name of the component that it is in."""
    if isinstance(part, dict):
        yield inside, part
        for name, each in part.items():
            if name not in ("example", "examples"):
                yield from schemas(each, inside or name)
    elif isinstance(part, list):
        for each in part:
            yield from schemas(each, inside)


def operations() -> Iterator[dict[str, Any]]:
    for methods in DOCUMENT["paths"].values():
        yield from methods.values()


def names() -> set[str]:
    """Of all fields and parameters."""
    fields = {name for _, each in schemas(SCHEMAS) for name in each.get("properties") or {}}
    shared = {each["name"] for each in DOCUMENT["components"]["parameters"].values()}
    return fields | shared | {each["name"] for row in operations() for each in row["parameters"] if "name" in each}


def proto_names() -> set[tuple[str, str]]:
    messages = pb.DESCRIPTOR.message_types_by_name.items()
    return {(message, field.name) for message, described in messages for field in described.fields}


def test_each_idea_has_one_name() -> None:
    assert sorted(names() & set(IDEAS)) == []
    assert sorted(each for each in proto_names() - PROTO_EXCEPTIONS if each[1] in IDEAS) == []


def test_every_list_has_the_same_shape() -> None:
    lists = [row for row in operations() if row["operationId"].startswith("list")]
    assert len(lists) > 15
    for row in lists:
        (success,) = [status for status in row["responses"] if status.startswith("2")]
        content = row["responses"][success]["content"]["application/json"]["schema"]
        fields = SCHEMAS[content["$ref"].rpartition("/")[2]]["properties"]
        assert fields["data"]["type"] == "array", row["operationId"]
        assert {"next_cursor", "last_cursor"} <= set(fields), row["operationId"]


def test_enum_values_are_in_capitals() -> None:
    parts = (SCHEMAS, DOCUMENT["components"]["parameters"], DOCUMENT["paths"])
    values = {
        (inside, value)
        for part in parts
        for inside, each in schemas(part)
        for value in each.get("enum") or ()
        if isinstance(value, str)
    }
    assert len(values) > 100
    small = {value for _, value in values if not re.fullmatch(r"[A-Z][A-Z0-9_]*", value) and ":" not in value}
    assert small <= SMALL


def test_no_value_is_spelled_in_two_ways() -> None:
    values = {value for _, each in schemas(SCHEMAS) for value in each.get("enum") or () if isinstance(value, str)}
    folded = [value.lower() for value in values]
    assert sorted({value for value in folded if folded.count(value) > 1} - {"failed", "all"}) == []


@pytest.mark.parametrize(("enum", "values"), [(pb.EventType, TYPES), (pb.Start, STARTS)], ids=["types", "starts"])
def test_a_value_over_grpc_is_the_same_after_the_name_of_its_enum(enum: Any, values: dict[str, object]) -> None:
    prefix = {"EventType": "EVENT_TYPE_", "Start": "START_"}[enum.DESCRIPTOR.name]
    assert {name.removeprefix(prefix) for name in enum.keys()} == {*values, "UNSPECIFIED"}  # noqa: SIM118 - not a dict


def test_moments_and_durations_are_named_as_what_they_are() -> None:
    moments = {
        name
        for _, each in schemas(SCHEMAS)
        for name, kind in (each.get("properties") or {}).items()
        if any(part.get("format") == "date-time" for part in (kind, *kind.get("anyOf", ())))
    }
    assert len(moments) > 20
    assert [name for name in sorted(moments) if not MOMENTS.fullmatch(name)] == []
    assert [name for name in sorted(names()) if name.endswith(("_ms", "_secs", "_time"))] == []


def test_no_field_has_a_default_because_generators_would_require_it() -> None:
    assert [inside for inside, each in schemas(SCHEMAS) if "default" in each] == []


def test_an_object_of_any_fields_states_it_because_generators_would_allow_none() -> None:
    objects = [(inside, each) for inside, each in schemas(SCHEMAS) if each.get("type") == "object"]
    assert [inside for inside, each in objects if not each.keys() & {"properties", "additionalProperties"}] == []


def test_receipts_and_payloads_of_events_are_described() -> None:
    event = SCHEMAS["Event"]["properties"]
    for kind in TYPES:
        assert SCHEMAS[event[kind.lower()]["$ref"].rpartition("/")[2]]["properties"], kind
    for holder in ("Problem", "StoredReceipt", "Evaluation"):
        assert SCHEMAS[holder]["properties"]["receipt"] == {"$ref": "#/components/schemas/Receipt"}, holder


def test_the_page_of_conventions_names_what_the_document_has() -> None:
    page = (ROOT / "docs" / "conventions.md").read_text()
    for value in ("`paper`", "`pending`", "`last_day`", "`next_cursor`", "`last_cursor`", "`resume_token`", "`since`"):
        assert value in page
    for name in re.findall(r"^\| `(\w+)`", page, re.MULTILINE):
        assert name in names() | {"id"}, name
