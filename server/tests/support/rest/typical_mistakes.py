"""Mistakes in requests, and what each answer must tell: the field, the rule, and what would pass."""

import json
from dataclasses import dataclass, field

INTENTS = "/v1/accounts/{account}/intents"
SYMBOL = "/v1/controls/accounts/{account}/symbols/AAPL"
KEY = {"x-api-key": "{key}"}
SPEC = "/command/payload/spec"
DECIMAL = ('like "10.5"', "no sign, no exponent", "at most 18 digits")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A request in which one thing is wrong; names in braces stand for what the tests have made."""

    what: str
    method: str = "POST"
    path: str = INTENTS
    headers: dict[str, str] = field(default_factory=lambda: dict(KEY))
    # An object is sent as JSON, a text as it is.
    body: object = None
    status: int
    code: str
    pointer: str | None = None
    # What the answer must say.
    says: tuple[str, ...]


def create(spec: object = None, **changed: object) -> dict[str, object]:
    payload = {"symbol": "AAPL", "order_side": "BUY", "spec": spec or {"Market": {"quantity": "10"}}, **changed}
    return {"command": {"type": "CREATE", "payload": payload}}


def market(quantity: object) -> dict[str, object]:
    return create({"Market": {"quantity": quantity}})


def cancel(intent: str) -> dict[str, object]:
    return {"command": {"type": "CANCEL", "payload": {"ref_intent_id": intent}}}


def replace(intent: str, spec: object) -> dict[str, object]:
    return {"command": {"type": "REPLACE", "payload": {"ref_intent_id": intent, "spec": spec}}}


def invalid(what: str, body: object, pointer: str, *says: str) -> Mistake:
    """A body that is JSON and not a command."""
    return Mistake(what=what, body=body, status=422, code="invalid_command", pointer=pointer, says=says)


BODIES = [
    Mistake(
        what="A body without the content type JSON",
        headers={**KEY, "content-type": "application/x-www-form-urlencoded"},
        body=json.dumps(create()),
        status=415,
        code="not_json",
        says=("application/x-www-form-urlencoded", "Content-Type: application/json"),
    ),
    Mistake(
        what="A truncated body",
        body='{"command": {"type": "CREATE"',
        status=400,
        code="malformed_body",
        says=("not valid JSON", "column", "one JSON object"),
    ),
    Mistake(
        what="A JSON key that occurs twice",
        body='{"command": {"type": "CANCEL", "type": "CREATE"}}',
        status=400,
        code="malformed_body",
        says=('"type" occurs twice', "each key once"),
    ),
    Mistake(
        what="A body of more than 64 KiB",
        body="{too_much}",
        status=413,
        code="body_too_large",
        says=("64 KiB", "smaller body"),
    ),
    invalid("A number instead of a string", market(10), f"{SPEC}/Market/quantity", *DECIMAL, "not a number"),
    invalid("A negative quantity", market("-10"), f"{SPEC}/Market/quantity", *DECIMAL),
    invalid("An exponent", market("1e3"), f"{SPEC}/Market/quantity", *DECIMAL),
    invalid("A quantity of zero", market("0.00"), f"{SPEC}/Market/quantity", "must be greater than zero"),
    invalid(
        "No quantity", create({"Market": {"time_in_force": "DAY"}}), f"{SPEC}/Market/quantity", "missing", *DECIMAL
    ),
    invalid(
        "An unknown field",
        create({"Market": {"qty": "10", "quantity": "10"}}),
        f"{SPEC}/Market/qty",
        "not a field here",
        "quantity, time_in_force",
    ),
    invalid(
        "A price on a market order",
        create({"Market": {"quantity": "10", "price": "187.5"}}),
        f"{SPEC}/Market/price",
        "not a field here",
    ),
    invalid(
        "Two order kinds in one spec",
        create({"Market": {"quantity": "10"}, "Limit": {"price": "187.5", "quantity": "10"}}),
        SPEC,
        "exactly one of Market, Limit, Stop, StopLimit",
    ),
    invalid(
        "An order kind in lower case", create({"market": {"quantity": "10"}}), f"{SPEC}/market", "Market, Limit, Stop"
    ),
    invalid("A side in lower case", create(order_side="buy"), "/command/payload/order_side", "BUY, SELL, SELL_SHORT"),
    invalid(
        "An unknown time in force",
        create({"Market": {"quantity": "10", "time_in_force": "GTC"}}),
        f"{SPEC}/Market/time_in_force",
        "GOOD_TILL_CANCEL",
    ),
    invalid(
        "A command that does not exist",
        {"command": {"type": "DELETE", "payload": {}}},
        "/command/type",
        "one of CREATE, REPLACE, CANCEL",
    ),
    invalid(
        "A symbol with a space", create(symbol="BRK B"), "/command/payload/symbol", "1 to 32 of A-Z, 0-9 and . - /"
    ),
    invalid("An intent id that is not a UUID", cancel("42"), "/command/payload/ref_intent_id", "must be a UUID like"),
]

STATES = [
    Mistake(
        what="An intent that does not exist",
        body=cancel("{missing_intent}"),
        status=404,
        code="not_found",
        says=("no such intent", "Check the id"),
    ),
    Mistake(
        what="A cancel of a closed order",
        body=cancel("{closed_intent}"),
        status=409,
        code="order_terminal",
        says=("already closed", "shows how it ended"),
    ),
    Mistake(
        what="A replace that changes the kind",
        body=replace("{working_intent}", {"Stop": {"stop_price": "1", "quantity": "10"}}),
        status=422,
        code="immutable_field",
        pointer="/command/payload/spec",
        says=("must be of the order's own kind", "cancel and create"),
    ),
    Mistake(
        what="An Idempotency-Key used for another command",
        headers={**KEY, "idempotency-key": "used-before"},
        body=market("11"),
        status=422,
        code="idempotency_key_reused",
        says=("another command", "new key"),
    ),
    Mistake(
        what="An Idempotency-Key with a space",
        headers={**KEY, "idempotency-key": "order 42"},
        body=create(),
        status=400,
        code="invalid_parameter",
        pointer="/headers/idempotency-key",
        says=("1 to 255 visible ASCII",),
    ),
    Mistake(
        what="A disabled symbol",
        body=create(symbol="MSFT"),
        status=422,
        code="controls_refused",
        says=("SYMBOL_DISABLED", "See receipt", "CANCEL is never refused"),
    ),
]

LISTS = [
    Mistake(
        what="A limit of zero",
        method="GET",
        path=f"{INTENTS}?limit=0",
        status=400,
        code="invalid_parameter",
        pointer="/limit",
        says=("from 1 to 100",),
    ),
    Mistake(
        what="A cursor of another list",
        method="GET",
        path=f"{INTENTS}/{{working_intent}}/actions?next_cursor={{cursor}}",
        status=400,
        code="invalid_cursor",
        pointer="/next_cursor",
        says=("unchanged from the previous page", "an earlier page of this list"),
    ),
    Mistake(
        what="An unknown query parameter",
        method="GET",
        path=f"{INTENTS}?cursor={{cursor}}",
        status=400,
        code="invalid_parameter",
        pointer="/cursor",
        says=("not known here", "next_cursor, limit"),
    ),
    Mistake(
        what="An unknown time window",
        method="GET",
        path=f"{INTENTS}/stats?time_window=yesterday",
        status=400,
        code="invalid_parameter",
        pointer="/time_window",
        says=("last_hour, last_day, last_week, last_month, all",),
    ),
    Mistake(
        what="A time without an offset",
        method="GET",
        path=f"{INTENTS}?since=2026-01-31",
        status=400,
        code="invalid_parameter",
        pointer="/since",
        says=("RFC 3339", "such as 2026-01-31T09:30:00Z"),
    ),
    Mistake(
        what="A method that the path does not support",
        method="DELETE",
        path=f"{INTENTS}/{{working_intent}}",
        status=405,
        code="method_not_allowed",
        says=("takes GET",),
    ),
]

CONTROLS = [
    Mistake(
        what="A control without the entitlement",
        method="PUT",
        path="/v1/controls/accounts/{plain_account}/symbols/AAPL",
        headers={"x-api-key": "{plain_key}"},
        body={"manually_disabled": True},
        status=403,
        code="entitlement_required",
        says=("controls_premium", "Ask the operator"),
    ),
    Mistake(
        what="A boolean as text",
        method="PUT",
        path=SYMBOL,
        body={"manually_disabled": "yes"},
        status=422,
        code="invalid_command",
        pointer="/manually_disabled",
        says=("true or false, not a string",),
    ),
    Mistake(
        what="A time of day without seconds",
        method="PATCH",
        path=f"{SYMBOL}/time",
        body={"trading_start": "9:30"},
        status=422,
        code="invalid_command",
        pointer="/trading_start",
        says=("HH:MM:SS",),
    ),
    Mistake(
        what="A field that is set and cleared",
        method="PATCH",
        path=f"{SYMBOL}/time",
        body={"trading_start": "09:30:00", "clear": ["trading_start"]},
        status=422,
        code="invalid_command",
        pointer="/trading_start",
        says=("both set and cleared",),
    ),
]
