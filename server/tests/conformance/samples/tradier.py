"""Answers of Tradier: its REST is all there is."""

import json
import re
from typing import Any, Final

from conformance.samples import CLIENT_ORDER_ID, SYMBOL, Answer, Route, Samples
from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.access.credentials import Secrets

ORDER_ID: Final = 38453653
NUMBER: Final = "VA00000000"
_TIME: Final = "2026-11-02T15:30:01.123Z"
_ORDER: Final[dict[str, Any]] = {
    "id": ORDER_ID,
    "type": "limit",
    "symbol": SYMBOL,
    "side": "buy",
    "quantity": 10.5,
    "status": "partially_filled",
    "duration": "day",
    "price": 189.5,
    "avg_fill_price": 189.125,
    "exec_quantity": 4.25,
    "last_fill_price": 189.125,
    "last_fill_quantity": 4.25,
    "remaining_quantity": 6.25,
    "create_date": _TIME,
    "transaction_date": _TIME,
    "class": "equity",
    "tag": CLIENT_ORDER_ID,
}


def samples(broker: str) -> Samples:
    refused = _answer({"errors": {"error": "TradingDeniedForAccount"}})
    taken = _answer({"order": {"id": ORDER_ID, "status": "ok", "partner_id": "3a8bbee1"}})
    account = "/v1/accounts/[^/]+"
    return Samples(
        definition=BROKERS[broker],
        broker_order_id=str(ORDER_ID),
        routes=(
            Route("submit", "POST", re.compile(f"{account}/orders"), (taken, refused)),
            Route("cancel", "DELETE", re.compile(f"{account}/orders/[^/]+"), (taken, refused)),
            Route("order", "GET", re.compile(f"{account}/orders/[^/]+"), (_answer({"order": _ORDER}),)),
            Route("orders", "GET", re.compile(f"{account}/orders"), (_answer({"orders": {"order": _ORDER}}),)),
            Route("profile", "GET", re.compile("/v1/user/profile"), (_profile(), _fault())),
            Route("positions", "GET", re.compile(f"{account}/positions"), (_positions(),)),
            Route("balances", "GET", re.compile(f"{account}/balances"), (_balances(),)),
            Route("quotes", "GET", re.compile("/v1/markets/quotes"), (_quotes(),)),
        ),
        free=frozenset({"symbol", "tag", "partner_id", "faultstring", "name", "description", "account_number"}),
        optional=frozenset(
            {"type", "symbol", "side", "tag", "class", "transaction_date", "bid", "ask", "last"}
            | {"bid_date", "ask_date", "trade_date", "orders", "order", "positions", "position", "quotes", "quote"}
            | {"account_type", "margin"}
        ),
        signed=frozenset(
            {"positions.quantity", "balances.total_cash", "balances.total_equity", "balances.stock_buying_power"}
        ),
        proofs=frozenset({"error", "errorcode"}),
        echoes={"order.tag": "0QmZ4rT7yUi1OpA2sDfG9z", "balances.account_number": "VA00000001"},
        secrets=Secrets({"account": NUMBER, "token": "t"}),
    )


def _answer(body: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(body).encode())


def _fault() -> Answer:
    code = "keymanagement.service.invalid_access_token"
    return _answer({"fault": {"faultstring": "Invalid Access Token", "detail": {"errorcode": code}}}, 401)


def _profile() -> Answer:
    account = {"account_number": NUMBER, "day_trader": False, "option_level": 6, "status": "active", "type": "margin"}
    return _answer({"profile": {"account": account, "id": "id-gcostanza", "name": "George Costanza"}})


def _positions() -> Answer:
    held = {"cost_basis": 207.01, "date_acquired": _TIME, "id": 130089, "quantity": -4.25, "symbol": SYMBOL}
    return _answer({"positions": {"position": held}})


def _balances() -> Answer:
    calls = {"fed_call": 0, "maintenance_call": 0, "stock_short_value": 0, "sweep": 0}
    margin = {**calls, "option_buying_power": 6363.86, "stock_buying_power": 12727.72}
    account = {"account_number": NUMBER, "account_type": "margin", "total_cash": -1.5, "total_equity": 17798.36}
    return _answer({"balances": {**account, "current_requirement": 2557.0, "margin": margin}})


def _quotes() -> Answer:
    prices = {"bid": 189.5, "ask": 189.51, "last": 189.5, "bid_date": 1793633401123, "ask_date": 1793633401123}
    quote = {"symbol": SYMBOL, "description": "Apple Inc", "type": "stock", "trade_date": 1793633401123, **prices}
    return _answer({"quotes": {"quote": quote}})
