"""Who may call what, written by hand from the contract, and never from the product's own rules.

A row says what each kind of caller needs for one operation. `expected` walks the checks in their order: the first that
fails answers; it has the rules of rows that have their own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from support.authorization.callers import ADMIN, ROLES
from support.authorization.heartbeat_rows import heartbeat_rows

# Routes that take no credential, because they show nothing of anybody.
OPEN_ROUTES = frozenset({"GET /healthz", "GET /openapi.json", "GET /openapi/accounts.json", "GET /docs"})


class Object(StrEnum):
    """What a call is aimed at."""

    OWN = "own"
    OTHER_ENVIRONMENT = "own, other environment"
    FOREIGN = "foreign"
    MISSING = "missing"
    DISABLED_ACCOUNT = "disabled account"
    DISABLED_ORGANIZATION = "disabled organization"
    # Inside one's own account.
    FOREIGN_INTENT = "own account, foreign intent"
    MISSING_INTENT = "own account, missing intent"
    # An organization that nobody but the user of two belongs to.
    SECOND = "second organization"


PREMIUM, TRADING = "controls_premium", "trading_live"
ENTITLEMENT_SETS = tuple(frozenset(each) for each in ((), (PREMIUM,), (TRADING,), (PREMIUM, TRADING)))
ACCOUNTS = (
    Object.OWN,
    Object.OTHER_ENVIRONMENT,
    Object.FOREIGN,
    Object.MISSING,
    Object.DISABLED_ACCOUNT,
    Object.DISABLED_ORGANIZATION,
)
INTENTS = (*ACCOUNTS, Object.FOREIGN_INTENT, Object.MISSING_INTENT)
KEYS = (Object.OWN, Object.OTHER_ENVIRONMENT, Object.FOREIGN, Object.MISSING, Object.DISABLED_ORGANIZATION)
NO_OBJECT = (Object.OWN, Object.DISABLED_ORGANIZATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One operation: what each kind of caller needs (None: not this kind), and what else must hold.

    Of permissions and scopes any one is enough; an empty set asks for none.
    """

    name: str
    route: str
    success: int
    objects: tuple[Object, ...]
    api_key: frozenset[str] | None = None
    user: frozenset[str] | None = None
    service: frozenset[str] | None = None
    # Controls Premium; Trading Live on a live account.
    premium: bool = False
    trading: bool = False
    # Which disabled thing stops it.
    stopped_by: frozenset[Object] = frozenset()
    # Errors are plain text.
    plain: bool = False


def _only(*names: str) -> frozenset[str]:
    return frozenset(names)


_ACCOUNTS, _ACCOUNT = "/v1/accounts", "/v1/accounts/{account_id}"
_CREDENTIAL = "/v1/accounts/{account_id}/credentials"
_INTENTS, _CANCEL = "/v1/accounts/{account_id}/intents", "/v1/accounts/{account_id}/orders/cancel"
_ANY: frozenset[str] = frozenset()
_DESK, _MEMBERS = "/v1/accounts/{account_id}/desk-commands", _only(ADMIN, "member")
_OF_DESK = tuple(f"GET {_DESK}{path}" for path in ("", "/{desk_command_id}", "/{desk_command_id}/orders"))
_SYMBOL = "/v1/controls/accounts/{account_id}/symbols/{symbol}"
_EFFECTIVE = "/v1/controls/effective"
_KEYS = "/v1/api-keys"
_WEBHOOKS, _WEBHOOK = "/v1/webhooks", "/v1/webhooks/{webhook_id}"
_ORGANIZATION = frozenset({Object.DISABLED_ORGANIZATION})


def _account_write(name: str, route: str, success: int, objects: tuple[Object, ...]) -> Row:
    return _write(name, route, success, objects, "account:edit")


def _credential_write(name: str, route: str, success: int) -> Row:
    return _write(name, route, success, ACCOUNTS, "credential:edit")


def _write(name: str, route: str, success: int, objects: tuple[Object, ...], permission: str) -> Row:
    return Row(
        name=name,
        route=route,
        success=success,
        objects=objects,
        api_key=_only(permission),
        user=_only(ADMIN),
        stopped_by=_ORGANIZATION,
    )


def _account_read(name: str, route: str, objects: tuple[Object, ...]) -> Row:
    return Row(
        name=name,
        route=route,
        success=200,
        objects=objects,
        api_key=_only("account:read"),
        user=ROLES,
        service=_only("account:read"),
    )


def _submit(command: str, objects: tuple[Object, ...], *, opens: bool) -> Row:
    """A cancel is never trapped: it needs no entitlement, and nothing disabled stops it."""
    return Row(
        name=f"submit {command}",
        route=f"POST {_INTENTS}",
        success=202,
        objects=objects,
        api_key=_only("intent:edit"),
        trading=opens,
        stopped_by=frozenset({Object.DISABLED_ACCOUNT, Object.DISABLED_ORGANIZATION}) if opens else frozenset(),
    )


def _read(name: str, path: str, objects: tuple[Object, ...]) -> Row:
    return Row(
        name=name,
        route=f"GET {_INTENTS}{path}",
        success=200,
        objects=objects,
        api_key=_only("intent:read"),
        user=ROLES,
        service=_only("intent:read"),
    )


def _control_write(name: str, route: str) -> Row:
    return Row(
        name=name,
        route=route,
        success=200,
        objects=ACCOUNTS,
        api_key=_only("control:edit:paper", "control:edit:live"),
        user=_only(ADMIN),
        premium=True,
        stopped_by=_ORGANIZATION,
    )


def _control_read(name: str, route: str) -> Row:
    return Row(
        name=name,
        route=route,
        success=200,
        objects=ACCOUNTS,
        api_key=_only("control:read"),
        user=ROLES,
        service=_only("control:read"),
        premium=True,
    )


def _rule_rows(whose: str, place: str, objects: tuple[Object, ...], *, by_keys: bool) -> Iterator[Row]:
    """Rules and the switch of a scope; what is above a key is for people."""
    read = replace(_control_read("", ""), objects=objects)
    for name, path in (
        (f"list {whose} rules", "/rules"),
        (f"show {whose} rule", "/rules/{code}"),
        (f"list {whose} switches", "/switches"),
        (f"changes of {whose}", "/changes"),
    ):
        yield replace(read, name=name, route=f"GET /v1/controls{path}?{place}")
    write = replace(_control_write("", ""), objects=objects)
    write = write if by_keys else replace(write, api_key=None)
    yield replace(write, name=f"put {whose} rule", route=f"PUT /v1/controls/rules/{{code}}?{place}")
    yield replace(write, name=f"delete {whose} rule", route=f"DELETE /v1/controls/rules/{{code}}?{place}", success=204)
    yield replace(write, name=f"put {whose} switch", route=f"PUT /v1/controls/switches?{place}")


def _webhook_write(name: str, route: str, success: int = 200, objects: tuple[Object, ...] = KEYS) -> Row:
    return _write(name, route, success, objects, "webhook:edit")


def _webhook_read(name: str, route: str, objects: tuple[Object, ...] = KEYS) -> Row:
    return Row(
        name=name,
        route=route,
        success=200,
        objects=objects,
        api_key=_only("webhook:read", "webhook:edit"),
        user=ROLES,
        service=_only("webhook:read"),
    )


def _manage_keys(name: str, route: str, success: int, objects: tuple[Object, ...], *, while_open: bool) -> Row:
    return Row(
        name=name,
        route=route,
        success=success,
        objects=objects,
        user=_only(ADMIN),
        stopped_by=_ORGANIZATION if while_open else frozenset(),
    )


ROWS = (
    Row(
        name="show me",
        route="GET /v1/me",
        success=200,
        objects=NO_OBJECT,
        api_key=_only(),
        user=_only(),
        service=_only(),
    ),
    *(
        Row(name=f"list {all_}", route=route, success=200, objects=NO_OBJECT, api_key=_ANY, user=_ANY, service=_ANY)
        for all_, route in (("brokers", "GET /v1/brokers"), ("calendars", "GET /v1/calendars"))
    ),
    Row(
        name="list sessions",
        route="GET /v1/calendars/{calendar}/sessions",
        success=200,
        objects=NO_OBJECT,
        api_key=_only(),
        user=_only(),
        service=_only(),
    ),
    Row(
        name="list control kinds",
        route="GET /v1/controls/kinds",
        success=200,
        objects=NO_OBJECT,
        api_key=_only(),
        user=_only(),
        service=_only(),
    ),
    _account_write("create account", f"POST {_ACCOUNTS}", 201, NO_OBJECT),
    _account_read("list accounts", f"GET {_ACCOUNTS}", NO_OBJECT),
    _account_read("show account", f"GET {_ACCOUNT}", ACCOUNTS),
    _account_write("change account", f"PATCH {_ACCOUNT}", 200, ACCOUNTS),
    _account_write("close account", f"DELETE {_ACCOUNT}", 204, ACCOUNTS),
    _account_read("show fault plan", f"GET {_ACCOUNT}/paper/faults", ACCOUNTS),
    _account_write("put fault plan", f"PUT {_ACCOUNT}/paper/faults", 200, ACCOUNTS),
    _account_write("delete fault plan", f"DELETE {_ACCOUNT}/paper/faults", 204, ACCOUNTS),
    _credential_write("put credential", f"PUT {_CREDENTIAL}", 200),
    _credential_write("delete credential", f"DELETE {_CREDENTIAL}", 204),
    _credential_write("verify credential", f"POST {_CREDENTIAL}/verify", 200),
    replace(_account_read("show credential", f"GET {_CREDENTIAL}", ACCOUNTS), service=_only("credential:read")),
    _submit("CREATE", ACCOUNTS, opens=True),
    _submit("REPLACE", INTENTS, opens=True),
    _submit("CANCEL", INTENTS, opens=False),
    Row(name="cancel orders", route=f"POST {_CANCEL}", success=200, objects=ACCOUNTS, user=_MEMBERS),
    replace(_submit("", ACCOUNTS, opens=False), name="desk command", route=f"POST {_DESK}", user=_MEMBERS),
    *(replace(_read("", "", ACCOUNTS), name=f"read {each}", route=each) for each in _OF_DESK),
    _read("list", "", ACCOUNTS),
    _read("stats", "/stats", ACCOUNTS),
    _read("latest", "/{intent_id}", INTENTS),
    _read("actions", "/{intent_id}/actions", INTENTS),
    replace(_read("external orders", "", ACCOUNTS), route=f"GET {_ACCOUNT}/external-orders"),
    replace(_read("overview", "", NO_OBJECT), route="GET /v1/overview"),
    replace(_read("orders of every account", "", NO_OBJECT), route="GET /v1/orders"),
    replace(_read("executions of every account", "", NO_OBJECT), route="GET /v1/executions"),
    replace(_read("orders", "", ACCOUNTS), route="GET /v1/orders?account_id={account_id}"),
    replace(_read("executions", "", ACCOUNTS), route="GET /v1/executions?account_id={account_id}"),
    replace(_read("positions", "", ACCOUNTS), route=f"GET {_ACCOUNT}/positions"),
    replace(_read("profit", "", ACCOUNTS), route=f"GET {_ACCOUNT}/profit"),
    replace(_read("balances", "", ACCOUNTS), route=f"GET {_ACCOUNT}/balances"),
    replace(_read("changes of positions", "", ACCOUNTS), route=f"GET {_ACCOUNT}/positions/changes"),
    replace(_read("receipts of intent", "", INTENTS), route=f"GET {_ACCOUNT}/receipts?intent_id={{intent_id}}"),
    replace(_read("receipt", "", INTENTS), route=f"GET {_ACCOUNT}/receipts/{{receipt_id}}"),
    replace(_read("refusals", "", ACCOUNTS), route=f"GET {_ACCOUNT}/receipts?refused=true"),
    replace(_read("chain", "", ACCOUNTS), route=f"GET {_ACCOUNT}/chain"),
    _control_write("put control", f"PUT {_SYMBOL}"),
    _control_write("patch time control", f"PATCH {_SYMBOL}/time"),
    _control_read("evaluate", "POST /v1/controls/evaluate"),
    replace(_control_read("controls of organization", f"GET {_EFFECTIVE}"), objects=NO_OBJECT),
    _control_read("controls of account", f"GET {_EFFECTIVE}?account_id={{account_id}}"),
    _control_read("controls of symbol", f"GET {_EFFECTIVE}?account_id={{account_id}}&symbol={{symbol}}"),
    replace(_control_read("controls of key", f"GET {_EFFECTIVE}?api_key_id={{api_key_id}}"), objects=KEYS),
    _control_read("halt reports", "GET /v1/halt-reports?account_id={account_id}"),
    _control_read("backtest", "POST /v1/controls/backtest"),
    *_rule_rows("organization", "scope=ORGANIZATION", NO_OBJECT, by_keys=False),
    *_rule_rows("account", "scope=ACCOUNT&account_id={account_id}", ACCOUNTS, by_keys=True),
    *_rule_rows("symbol", "scope=SYMBOL&account_id={account_id}&symbol={symbol}", ACCOUNTS, by_keys=True),
    *_rule_rows("key", "scope=KEY&api_key_id={api_key_id}", KEYS, by_keys=False),
    *heartbeat_rows(_control_read("", ""), _control_write("", ""), KEYS, NO_OBJECT),
    _control_read("show reference prices", f"GET {_ACCOUNT}/reference-prices"),
    Row(
        name="give prices",
        route="PUT /v1/reference-prices",
        success=200,
        objects=NO_OBJECT,
        user=_only(ADMIN),
        service=_only("reference:edit"),
        stopped_by=_ORGANIZATION,
    ),
    Row(
        name="stream",
        route="trading.TradingService/SubscribeEvents",
        success=200,
        objects=ACCOUNTS,
        api_key=_only("event:read", "intent:read"),
        user=ROLES,
        service=_only("event:read"),
        stopped_by=_ORGANIZATION,
    ),
    Row(
        name="stream many",
        route="trading.TradingService/StreamEvents",
        success=200,
        objects=ACCOUNTS,
        api_key=_only("event:read", "intent:read"),
        user=ROLES,
        service=_only("event:read"),
        stopped_by=_ORGANIZATION,
    ),
    Row(
        name="events",
        route="GET /v1/events?account_id={account_id}",
        success=200,
        objects=ACCOUNTS,
        api_key=_only("event:read", "intent:read"),
        user=ROLES,
        service=_only("event:read"),
    ),
    _webhook_write("create webhook", f"POST {_WEBHOOKS}", 201, NO_OBJECT),
    _webhook_read("list webhooks", f"GET {_WEBHOOKS}", NO_OBJECT),
    _webhook_read("show webhook", f"GET {_WEBHOOK}"),
    _webhook_read("list webhook lanes", f"GET {_WEBHOOK}/lanes"),
    _webhook_read("list webhook attempts", f"GET {_WEBHOOK}/attempts"),
    _webhook_write("change webhook", f"PATCH {_WEBHOOK}"),
    # Nothing more is sent of a disabled organization, and nobody needs to keep it.
    replace(_webhook_write("delete webhook", f"DELETE {_WEBHOOK}", 204), stopped_by=frozenset()),
    _webhook_write("rotate webhook secret", f"POST {_WEBHOOK}/rotate-secret"),
    _webhook_write("test webhook", f"POST {_WEBHOOK}/test"),
    _webhook_write("replay webhook", f"POST {_WEBHOOK}/replay"),
    _manage_keys("create key", f"POST {_KEYS}", 201, NO_OBJECT, while_open=True),
    _manage_keys("list keys", f"GET {_KEYS}", 200, NO_OBJECT, while_open=False),
    _manage_keys("show key", f"GET {_KEYS}/{{api_key_id}}", 200, KEYS, while_open=False),
    _manage_keys("worst case of a key", f"GET {_KEYS}/{{api_key_id}}/worst-case", 200, KEYS, while_open=False),
    _manage_keys("change key", f"PATCH {_KEYS}/{{api_key_id}}", 200, KEYS, while_open=True),
    # What a key may do is taken away in a disabled organization too.
    _manage_keys("delete key", f"DELETE {_KEYS}/{{api_key_id}}", 204, KEYS, while_open=False),
    Row(name="audit log", route="GET /v1/audit", success=200, objects=NO_OBJECT, user=_only(ADMIN)),
    # The key itself, whatever its state; a service account may ask about any.
    Row(
        name="validate key",
        route="POST /api/v1/auth/api-key/validate",
        success=200,
        objects=(Object.OWN, Object.FOREIGN, Object.MISSING, Object.DISABLED_ORGANIZATION),
        api_key=_only(),
        service=_only(),
    ),
    Row(
        name="look up organization",
        route="GET /v1/organizations/by-provider/{provider}/{provider_id}",
        success=200,
        objects=(Object.OWN, Object.SECOND, Object.FOREIGN, Object.MISSING, Object.DISABLED_ORGANIZATION),
        user=_only(),
        service=_only(),
    ),
    Row(name="delete me", route="DELETE /v1/users/me", success=204, objects=NO_OBJECT, user=_only(), plain=True),
    Row(
        name="outbox health",
        route="GET /v1/accounts/outbox/health",
        success=200,
        objects=NO_OBJECT,
        user=_only(ADMIN),
        service=_only("credential:read"),
        plain=True,
    ),
    Row(
        name="outboxes",
        route="GET /v1/operations/outboxes",
        success=200,
        objects=NO_OBJECT,
        user=_only(ADMIN),
        service=_only("credential:read"),
    ),
)
