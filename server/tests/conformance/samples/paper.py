"""Answers of the paper broker, in any of its kinds."""

import re

import msgspec

from conformance.samples import ACCOUNT, CLIENT_ORDER_ID, ORDER, SYMBOL, TOLD_AT, VALID_UNTIL, Answer, Route, Samples
from openbell_server.brokers.http_client import decimal_text
from openbell_server.brokers.paper.keys import KEY_REFUSED
from openbell_server.brokers.paper.profiles import PROFILES, Profile
from openbell_server.brokers.paper.wire import (
    AcceptedBody,
    AccountBody,
    ChangeBody,
    ExecutionBody,
    FeedLine,
    LedgerOrderBody,
    OrderPage,
    PositionBody,
    QuotedBody,
    RefusalBody,
    ReportBody,
    SessionBody,
)
from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.access.credentials import Secrets
from openbell_server.domain.orders.broker_reports import ReportStatus

BROKER_ORDER_ID = "P7"


def samples(broker: str) -> Samples:
    profile = PROFILES[broker]
    prefix = "" if broker == "paper" else f"/{broker}"
    orders = f"{prefix}/accounts/{ACCOUNT}/orders"
    order = f"{prefix}/accounts/{ACCOUNT}/(broker-)?orders/[^/]+"
    routes = (
        _route("submit", "POST", orders, (201, _taken()), (422, _refusal("refused"))),
        _route("replace", "PATCH", order, (200, _taken()), (409, _refusal("order_closed"))),
        _route("cancel", "DELETE", order, (200, _taken()), (404, _refusal("unknown_order"))),
        _route("find", "GET", order, (200, _order(profile)), (404, _refusal("unknown_order"))),
        _route("list", "GET", orders, (200, OrderPage((_order(profile),), None))),
        _route("account", "GET", f"{prefix}/accounts/{ACCOUNT}", (200, _account())),
        _route("price", "GET", f"{prefix}/prices/{SYMBOL}", (200, QuotedBody(SYMBOL, "189.5", "100"))),
        _route(
            "sign_in",
            "POST",
            f"{prefix}/accounts/{ACCOUNT}/session",
            (200, SessionBody("PA1", VALID_UNTIL)),
            (401, _refusal(KEY_REFUSED)),
        ),
        Route("feed", "GET", re.compile(f"{prefix}/updates"), (Answer(200, _feed(profile)),), is_feed=True),
    )
    return Samples(
        definition=BROKERS[broker],
        broker_order_id=BROKER_ORDER_ID,
        routes=routes,
        free=frozenset({"text", "execution_id", "external_account_id", "broker_order_id", "client_order_id", "symbol"}),
        optional=frozenset(
            {
                "limit_price",
                "stop_price",
                "size",
                "fee",
                "expires_at",
                "external_account_id",
                "executions",
                "changes",
                "next",
                "feed.client_order_id",
                "list.client_order_id",
            }
        ),
        signed=frozenset({"account.cash", "account.equity", "account.buying_power", "account.quantity"}),
        proofs=frozenset({"code", "broker_order_id"}),
        echoes=_echoes(profile),
        secrets=Secrets({"key_id": "PK1", "secret": "s"}),
    )


def _route(name: str, method: str, path: str, *answers: tuple[int, msgspec.Struct]) -> Route:
    made = tuple(Answer(status, msgspec.json.encode(body)) for status, body in answers)
    return Route(name, method, re.compile(path), made)


def _echoes(profile: Profile) -> dict[str, str]:
    """What an answer to a look-up must repeat."""
    other = "00000000-0000-7000-8000-00000000ffff"
    name = (
        ("find.client_order_id", "0QmZ4rT7yUi1OpA2sDfG9z") if profile.has_client_ids else ("find.broker_order_id", "P8")
    )
    return dict([("find.account_id", other), ("list.account_id", other), name])


def _taken() -> AcceptedBody:
    return AcceptedBody(BROKER_ORDER_ID)


def _refusal(code: str) -> RefusalBody:
    return RefusalBody(code, "no")


def _account() -> AccountBody:
    held = (PositionBody("AAPL", "-4.25", "189.5"),)
    return AccountBody(cash="-1.5", equity="-806.875", buying_power="1000", fees_paid="0", positions=held)


def _told(profile: Profile) -> dict[str, object]:
    return {
        "client_order_id": CLIENT_ORDER_ID if profile.has_client_ids else None,
        "broker_order_id": BROKER_ORDER_ID,
        "symbol": SYMBOL,
        "side": ORDER.order_side,
        "type": ORDER.order_type,
        "quantity": decimal_text(ORDER.quantity),
        "limit_price": "189.5",
        "stop_price": None,
        "time_in_force": ORDER.time_in_force,
        "terms_version": 1,
        "accepted_at": TOLD_AT,
        "status": ReportStatus.WORKING,
        "triggered": False,
        "filled_quantity": "4.25",
        "executions": (
            ExecutionBody(
                execution_id="E1", quantity="4.25", price="189.123456789012345678", fee="0.00425", executed_at=TOLD_AT
            ),
        ),
        "changes": (ChangeBody(execution_id="E1", revision=1, quantity="4.25", price="189.5"),),
    }


def _order(profile: Profile) -> LedgerOrderBody:
    return LedgerOrderBody(number=7, account_id=ACCOUNT, **_told(profile))  # type: ignore[arg-type]


def _feed(profile: Profile) -> bytes:
    report = ReportBody(**_told(profile))  # type: ignore[arg-type]
    lines = (FeedLine(connected=1), FeedLine(), FeedLine(number=2, account_id=ACCOUNT, report=report))
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
