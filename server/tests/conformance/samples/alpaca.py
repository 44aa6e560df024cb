"""Answers of Alpaca: its REST, and its stream message by message."""

import json
import re
from typing import Any, Final

from conformance.samples import CLIENT_ORDER_ID, REPLACEMENT_ID, SYMBOL, Answer, Route, Samples
from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.access.credentials import Secrets

ORDER_ID: Final = "61e69015-8549-4bfd-b9c3-01e75843f47d"
REPLACED_BY: Final = "7c4b8a34-2f5e-4f0b-9d4e-2f6f2c8d9a10"
_OTHER_ID: Final = "00000000-8549-4bfd-b9c3-01e75843f47d"
_TIME: Final = "2026-11-02T15:30:01.123456Z"
_ORDER: Final[dict[str, Any]] = {
    "id": ORDER_ID,
    "client_order_id": CLIENT_ORDER_ID,
    "created_at": _TIME,
    "updated_at": _TIME,
    "submitted_at": _TIME,
    "filled_at": None,
    "replaced_by": None,
    "replaces": None,
    "asset_class": "us_equity",
    "notional": None,
    "qty": "10.5",
    "filled_qty": "4.25",
    "filled_avg_price": "189.25",
    "order_class": "",
    "type": "limit",
    "side": "buy",
    "time_in_force": "day",
    "limit_price": "189.5",
    "stop_price": None,
    "status": "partially_filled",
    "extended_hours": False,
    "legs": None,
    "symbol": SYMBOL,
}
_FILL: Final = {
    "id": "20261102093001123::8b9d2b3a-1f0e-4c55-9a0a-5f2f2d1c7e11",
    "activity_type": "FILL",
    "transaction_time": _TIME,
    "type": "partial_fill",
    "price": "189.123456789012345678",
    "qty": "4.25",
    "side": "buy",
    "symbol": SYMBOL,
    "leaves_qty": "6.25",
    "order_id": ORDER_ID,
    "cum_qty": "4.25",
}
_UPDATE: Final = {
    "event": "partial_fill",
    "execution_id": "2f63ea93-423d-4169-b3f6-3fdafc10c418",
    "order": _ORDER,
    "position_qty": "4.25",
    "price": "189.123456789012345678",
    "qty": "4.25",
    "timestamp": _TIME,
}


def samples(broker: str) -> Samples:
    return Samples(
        definition=BROKERS[broker],
        broker_order_id=ORDER_ID,
        routes=_routes(),
        free=frozenset({"id", "client_order_id", "symbol", "message", "account_number", "order_id", "asset_class"}),
        optional=frozenset(
            {
                "qty",
                "symbol",
                "side",
                "type",
                "time_in_force",
                "limit_price",
                "stop_price",
                "submitted_at",
                "order_class",
            }
            | {
                "avg_entry_price",
                "fractionable",
                "class",
                "price",
                "timestamp",
                "event",
                "bp",
                "ap",
                "order_id",
                "account.code",
                "equity",
                "buying_power",
                "initial_margin",
                "maintenance_margin",
            }
        ),
        signed=frozenset(
            {"positions.qty", "feed.position_qty", "account.cash", "account.equity", "account.buying_power"}
            | {"account.initial_margin", "account.maintenance_margin"}
        ),
        proofs=frozenset(f"{route}.code" for route in ("submit", "replace", "cancel", "named", "asset")),
        echoes={
            "submit.client_order_id": "0QmZ4rT7yUi1OpA2sDfG9z",
            "replace.client_order_id": "0QmZ4rT7yUi1OpA2sDfG9z",
            "named.client_order_id": "0QmZ4rT7yUi1OpA2sDfG9z",
            "asset.symbol": "MSFT",
        },
        secrets=Secrets({"key_id": "PK00000000000000", "secret": "s"}),
    )


def _routes() -> tuple[Route, ...]:
    nothing = _refusal(404, 40410000)
    order = "/v2/orders/[^/]+"
    return (
        Route("submit", "POST", re.compile("/v2/orders"), (_answer(_ORDER), _refusal(422, 42210000))),
        Route(
            "replace",
            "PATCH",
            re.compile(order),
            (_answer({**_ORDER, "id": REPLACED_BY, "client_order_id": REPLACEMENT_ID}), _refusal(422, 42210000)),
        ),
        Route("cancel", "DELETE", re.compile(order), (Answer(204, b""), _refusal(422, 42210000)), frozenset({204})),
        Route("named", "GET", re.compile("/v2/orders:by_client_order_id"), (_answer(_ORDER), nothing)),
        Route("order", "GET", re.compile(order), (_answer(_ORDER),)),
        Route("orders", "GET", re.compile("/v2/orders"), (_answer([_ORDER]),)),
        Route("fills", "GET", re.compile("/v2/account/activities/FILL"), (_answer([_FILL]),)),
        Route(
            "account",
            "GET",
            re.compile("/v2/account"),
            (_account(), _refusal(401, 40110000)),
            frozenset({401, 403}),
            first_only=frozenset({"balances"}),
        ),
        Route("positions", "GET", re.compile("/v2/positions"), (_positions(),)),
        Route("asset", "GET", re.compile("/v2/assets/[^/]+"), (_asset(), nothing)),
        Route("quotes", "GET", re.compile("/v2/stocks/quotes/latest"), (_quotes(),)),
        Route("feed", "GET", re.compile("/stream"), (Answer(200, _messages()),), is_feed=True, is_socket=True),
    )


def _answer(body: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(body).encode())


def _refusal(status: int, code: int) -> Answer:
    return _answer({"code": code, "message": "no"}, status)


def _account() -> Answer:
    money = {"cash": "-1.5", "equity": "803.875", "buying_power": "1607.75", "currency": "USD"}
    margins = {"initial_margin": "402.6875", "maintenance_margin": "241.6125", "multiplier": "2"}
    return _answer({"id": _OTHER_ID, "account_number": "PA1", "status": "ACTIVE", **money, **margins})


def _positions() -> Answer:
    held = {"symbol": SYMBOL, "qty": "-4.25", "side": "short", "avg_entry_price": "189.5", "market_value": "-805.375"}
    return _answer([{**held, "asset_class": "us_equity"}])


def _asset() -> Answer:
    return _answer({"id": _OTHER_ID, "class": "us_equity", "symbol": SYMBOL, "tradable": True, "fractionable": True})


def _quotes() -> Answer:
    return _answer({"quotes": {SYMBOL: {"t": _TIME, "ap": 189.51, "as": 2, "bp": 189.5, "bs": 3, "ax": "V"}}})


def _messages() -> bytes:
    told = (
        ("authorization", {"status": "authorized", "action": "authenticate"}),
        ("listening", {"streams": ["trade_updates"]}),
        ("trade_updates", _UPDATE),
    )
    return b"".join(json.dumps({"stream": stream, "data": data}).encode() + b"\n" for stream, data in told)
