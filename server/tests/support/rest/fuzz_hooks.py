"""What the HTTP fuzzer is told about this platform: ids that exist, its own formats, and which refusals are honest."""

import json
import os
import re
from typing import Any
from uuid import UUID

import schemathesis
from hypothesis import strategies
from schemathesis import Case, CheckContext, HookContext, Response

WORLD: dict[str, Any] = json.loads(os.environ["FUZZ_WORLD"])
# Answers to a request that has the documented shape: they say that the caller's data was wrong, and it was not.
UNTRUE = {"malformed_body", "not_json", "body_too_large", "invalid_command", "invalid_parameter", "method_not_allowed"}

# What one shape cannot say: how fields and the stored control stand to each other.
HONEST = (
    "is both set and cleared",
    "needs a calendar",
    "needs a window or a calendar",
    "must differ from trading_start",
    "of paper accounts",
    "of live accounts",
    "must be later than now",
    "must not be in the future",
    "must be in the years 1 to 9999 of UTC",
    "must be later than since",
    "must be another currency than from",
    "must have 1 to 500 prices and rates",
    # How dates stand to each other, and to what is known of a market.
    "days after since",
    "is known",
    # What a broker asks for is its own form.
    "/fields",
    "/faults",
    "is only for an account that is disabled",
    # What a rule is made of is its code's own form.
    "/parameters",
    "cannot be set at the scope",
    "must be given for the scope",
    # How the ends of a back-test stand to each other, to now and to what is on record.
    "must be before until",
    "days before until",
    "is only for a switch that stops something",
    # Whether a host is everybody's, and which accounts are whose.
    "url must name a host",
    "url must have the port",
    "url leads",
    "of yours only",
    # One path gives pages and streams, and each has its own parameters.
    "is for streams",
    "only a stream may be of every account",
    # How the parameters of a place stand to each other.
    "is required with s",
    "does not go with",
    "is for pages",
    "both set where to begin",
    # What a desk command needs depends on its type, and what a promise needs on its caller.
    "must be absent: a position",
    "is missing: CLOSE_POSITION",
    "is required for users with scope KEY",
    # A key has a budget, or permissions.
    "is required without agent",
    "left out for an agent",
    "must be given for an agent key",
    "accounts of the organization",
    "/agent",
)

# They disable, close or break accounts: those that others trade on are not theirs.
CHANGING = {
    *("changeAccount", "closeAccount", "putFaultPlan"),
    *("putRule", "putSwitch", "putHeartbeat"),
}
# What the place of a rule or switch is addressed by.
NAMED_BY = {"ORGANIZATION": (), "ACCOUNT": ("account_id",), "SYMBOL": ("account_id", "symbol"), "KEY": ("api_key_id",)}
# Only what has its shape is replaced by what exists: what is malformed on purpose stays so.
PLAIN, CURSOR = re.compile(r"[ -~]+"), re.compile(r"[A-Za-z0-9_-]{27}")
PRINTABLE = strategies.text(strategies.characters(codec="utf-8"), min_size=1, max_size=64).filter(str.isprintable)
schemathesis.openapi.format("printable", PRINTABLE)
schemathesis.openapi.format("name", PRINTABLE.filter(str.strip))
schemathesis.openapi.format("external-id", PRINTABLE.map(str.strip).filter(bool))
# What a pattern cannot say of a host: that it is nobody's inside, at a port that is for this. None of these resolves.
HOSTS = strategies.sampled_from(["hooks.example", "hooks.example:8443", "a_b.c-d.invalid", "XN--4CA.Test"])
PATHS = strategies.from_regex(r"([/?][A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?", fullmatch=True)
schemathesis.openapi.format("webhook-url", strategies.builds("https://{}{}".format, HOSTS, PATHS))
schemathesis.openapi.format("broker", strategies.just("paper"))
schemathesis.openapi.format("timezone", strategies.sampled_from(["UTC", "America/New_York", "Asia/Kathmandu"]))


def _often(text: object, known: list[str]) -> object:
    """One of the known ids in three of four cases of a well-formed one; what is malformed on purpose stays so."""
    try:
        number = UUID(str(text)).int
    except ValueError:
        return text
    return known[number % len(known)] if number % 4 and known else text


def _operation_id(context: HookContext) -> str:
    return "" if context.operation is None else str(context.operation.definition.raw.get("operationId"))


def _is_to_be_replaced(made_up: object) -> bool:
    """Half of what is made up, and all that no shape can call unreadable."""
    text = json.dumps(made_up)
    return len(text) % 2 == 1 or "\\u0000" in text


@schemathesis.hook
def map_path_parameters(context: HookContext, path_parameters: dict[str, Any]) -> dict[str, Any]:
    known = WORLD["ids"]
    if _operation_id(context) in CHANGING:
        known = known | {"account_id": WORLD["spare_accounts"]}
    for name, value in (path_parameters or {}).items():
        path_parameters[name] = _often(value, known.get(name, []))
    if str(path_parameters.get("provider", "") if path_parameters else "").isalpha():
        path_parameters |= WORLD["provider"]
    return path_parameters


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    """Also with an id that a response contained: accounts and the key that others trade with stay as they are."""
    del context, kwargs
    operation_id = case.operation.definition.raw.get("operationId")
    named = str((case.path_parameters or {}).get("account_id", "")).lower()
    if operation_id in CHANGING and named in WORLD["kept_accounts"]:
        case.path_parameters["account_id"] = WORLD["spare_accounts"][0]
    named = str((case.query or {}).get("account_id", "")).lower()
    if operation_id in CHANGING and named in WORLD["kept_accounts"]:
        case.query["account_id"] = WORLD["spare_accounts"][0]
    for place in (case.path_parameters, case.query):
        if case.method != "GET" and str((place or {}).get("api_key_id", "")).lower() == WORLD["kept_key"]:
            place["api_key_id"] = WORLD["ids"]["api_key_id"][0]


@schemathesis.hook
def map_headers(context: HookContext, headers: dict[str, Any]) -> dict[str, Any]:
    if headers and "x-organization-id" in headers:
        headers["x-organization-id"] = _often(headers["x-organization-id"], [WORLD["organization_id"]])
    return headers


@schemathesis.hook
def map_query(context: HookContext, query: dict[str, Any]) -> dict[str, Any]:
    cursor = (query or {}).get("next_cursor")
    if isinstance(cursor, str) and CURSOR.fullmatch(cursor) and ord(cursor[0]) % 2:
        query["next_cursor"] = WORLD["cursor"]
    known = WORLD["ids"] | {"account_id": WORLD["spare_accounts"]}
    for name in ("account_id", "api_key_id"):
        if name in (query or {}):
            query[name] = _often(query[name], known.get(name, []))
    needed = NAMED_BY.get(str((query or {}).get("scope")))
    if needed is not None and len(json.dumps(query)) % 4:
        values = {
            "account_id": known["account_id"][0],
            "symbol": "AAPL",
            "api_key_id": (known.get("api_key_id") or [""])[0],
        }
        kept = {name: value for name, value in query.items() if name not in values or name in needed}
        query = {**{name: values[name] for name in needed}, **kept}
    return query


@schemathesis.hook
def map_body(context: HookContext, body: Any) -> Any:
    command = body.get("command") if isinstance(body, dict) else None
    payload = command.get("payload") if isinstance(command, dict) else None
    if isinstance(payload, dict) and "ref_intent_id" in payload:
        payload["ref_intent_id"] = _often(payload["ref_intent_id"], WORLD["ids"]["intent_id"])
    if isinstance(body, dict) and isinstance(body.get("fields"), dict) and _is_to_be_replaced(body["fields"]):
        body["fields"] = {"key_id": "PK-2026-K7Q2", "secret": "of the fuzzer"}
    if isinstance(body, dict) and isinstance(body.get("faults"), dict) and _is_to_be_replaced(body["faults"]):
        body["faults"] = {"slow_ms": 1, "duplicate_fills": 0.5}
    rules = body.get("rules") if isinstance(body, dict) else None
    for rule in (body, *(rules if isinstance(rules, list) else ())):
        if (
            isinstance(rule, dict)
            and isinstance(rule.get("parameters"), dict)
            and _is_to_be_replaced(rule["parameters"])
        ):
            rule["parameters"] = {"quantity": "1000000"}
    if isinstance(body, dict):
        _trade_on(body, _operation_id(context))
    if isinstance(body, dict) and isinstance(body.get("account_ids"), list):
        body["account_ids"] = [_often(each, WORLD["ids"]["account_id"]) for each in body["account_ids"]]
    key = body.get("api_key") if isinstance(body, dict) else None
    if isinstance(key, str) and PLAIN.fullmatch(key) and len(key) % 2:
        body["api_key"] = WORLD["api_key"]
    return body


def _trade_on(body: dict[str, Any], operation_id: str) -> None:
    """The whole organization trades on. Nobody sends a second heartbeat, so none may be missed before the end."""
    if body.get("mode") == "HARD" and operation_id == "putRule":
        body["mode"] = "SHADOW"
    if "status" in body and operation_id == "putSwitch":
        body["status"] = "ACTIVE" if body["status"] in ("HALTED", "REDUCE_ONLY") else body["status"]
    if operation_id == "putHeartbeat" and body.get("timeout_seconds") in range(5, 300):
        body["timeout_seconds"] = 300


@schemathesis.check
def no_valid_request_is_called_invalid(ctx: CheckContext, response: Response, case: Case[Any]) -> None:
    """Sharper than the built-in check of accepted data, which knows statuses only."""
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code < 400:
        return
    if "problem+json" in "".join(response.headers.get("content-type", [])):
        told = response.json()
        honest = any(words in told["detail"] for words in HONEST)
        assert told["code"] not in UNTRUE or honest, f"a request of the documented shape was refused: {response.text}"
