"""Pairs of a looser and a stricter state of everything that limits trading, written by hand.

What tightens and what loosens is written here a second time, and never taken from the product's own comparison.
"""

from collections.abc import Mapping
from typing import Any

_COLLAR = {"up_percent": "5", "down_percent": "5"}
_VALUE = {"value": "100", "currency": "USD"}
Parameters = Mapping[str, Any]
# Looser and stricter parameters of each kind of rule, one parameter at a time.
RULES: list[tuple[str, Parameters, Parameters]] = [
    ("RESTRICTED", {"list": "DENY", "symbols": ["A"]}, {"list": "DENY", "symbols": ["A", "B"]}),
    ("RESTRICTED", {"list": "ALLOW_ONLY", "symbols": ["A", "B"]}, {"list": "ALLOW_ONLY", "symbols": ["A"]}),
    ("SIDE_NOT_ALLOWED", {"sides": ["BUY", "SELL"]}, {"sides": ["BUY"]}),
    ("SIDE_NOT_ALLOWED", {"no_short": False}, {"no_short": True}),
    ("OUTSIDE_TRADING_WINDOW", {"trading_start": "09:00:00"}, {"trading_start": "09:30:00"}),
    ("OUTSIDE_TRADING_WINDOW", {"days": ["MON", "TUE"]}, {"days": ["MON"], "trading_end": "12:00:00"}),
    ("MARKET_CLOSED", {"calendar": "XNYS", "session": "ANY"}, {"calendar": "XNYS"}),
    ("STALE_ORDER", {"max_age_millis": 50_000}, {"max_age_millis": 40_000}),
    ("QTY_MAX", {"quantity": "10"}, {"quantity": "9.5"}),
    ("QTY_MIN", {"quantity": "10"}, {"quantity": "11"}),
    ("NOTIONAL_MAX", _VALUE, _VALUE | {"value": "99"}),
    ("NOTIONAL_MAX", _VALUE, _VALUE | {"buffer_percent": "6"}),
    ("DAY_NOTIONAL_MAX", _VALUE, _VALUE | {"value": "99"}),
    ("DAY_NOTIONAL_MAX", _VALUE, _VALUE | {"buffer_percent": "6"}),
    ("GROSS_MAX", _VALUE, _VALUE | {"value": "99"}),
    ("GROSS_MAX", _VALUE, _VALUE | {"buffer_percent": "6"}),
    ("BUYING_POWER", {"currency": "USD"}, {"currency": "USD", "keep": "100"}),
    ("BUYING_POWER", {"currency": "USD"}, {"currency": "USD", "buffer_percent": "6"}),
    ("LOSS_MAX", _VALUE, _VALUE | {"value": "99"}),
    ("LOSS_MAX", _VALUE, _VALUE | {"measured_from": "HIGHEST"}),
    ("LOSS_MAX", _VALUE, _VALUE | {"on_breach": "HALTED"}),
    ("TICK", {"tick": "0.01"}, {"tick": "0.05"}),
    ("LOT", {"lot": "1"}, {"lot": "100"}),
    ("PRICE_COLLAR", _COLLAR, _COLLAR | {"up_percent": "4"}),
    ("PRICE_COLLAR", _COLLAR, _COLLAR | {"down_percent": "4"}),
    ("PRICE_COLLAR", _COLLAR | {"passive_percent": "9"}, _COLLAR | {"passive_percent": "8"}),
    ("PRICE_COLLAR", _COLLAR, _COLLAR | {"spread_percent": "1"}),
    ("DUPLICATE", {"window_millis": 1000}, {"window_millis": 2000}),
    ("DUPLICATE", {"callers_may_override": True}, {}),
    ("DUPLICATE", {}, {"callers_may_override": False}),
    ("RATE_ORDERS", {"count": 5, "window_millis": 1000}, {"count": 4, "window_millis": 1000}),
    ("RATE_ORDERS", {"count": 5, "window_millis": 1000}, {"count": 5, "window_millis": 1001}),
    ("OPEN_ORDERS_MAX", {"count": 5}, {"count": 4}),
    ("OPEN_ORDERS_MAX", {"count": 5, "per": "SIDE"}, {"count": 5, "per": "SYMBOL"}),
    ("OPEN_ORDERS_MAX", {"count": 5, "per": "SYMBOL"}, {"count": 5}),
    ("POSITION_MAX", {"quantity": "10"}, {"quantity": "9"}),
]
SWITCHES: list[tuple[Parameters, Parameters]] = [
    ({"status": "ACTIVE"}, {"status": "REDUCE_ONLY"}),
    ({"status": "ACTIVE"}, {"status": "HALTED"}),
    ({"status": "REDUCE_ONLY", "cancel_working": True}, {"status": "HALTED"}),
    ({"status": "HALTED"}, {"status": "HALTED", "cancel_working": True}),
]
# None: no heartbeats are promised.
HEARTBEATS: list[tuple[Parameters | None, Parameters]] = [
    ({"timeout_seconds": 300, "cancel_working": False}, {"timeout_seconds": 200, "cancel_working": False}),
    ({"timeout_seconds": 300, "cancel_working": False}, {"timeout_seconds": 300, "cancel_working": True}),
    (None, {"timeout_seconds": 300, "cancel_working": False}),
]
# Both directions loosen, because such parameters cannot be compared or do both.
INCOMPARABLE: list[tuple[str, Parameters, Parameters]] = [
    ("RESTRICTED", {"list": "DENY", "symbols": ["A"]}, {"list": "ALLOW_ONLY", "symbols": ["A"]}),
    ("RESTRICTED", {"list": "DENY", "symbols": ["A"]}, {"list": "DENY", "symbols": ["B"]}),
    ("SIDE_NOT_ALLOWED", {"sides": ["BUY"]}, {"sides": ["SELL"]}),
    ("SIDE_NOT_ALLOWED", {"sides": ["BUY", "SELL"]}, {"sides": ["BUY", "SELL_SHORT"], "no_short": True}),
    ("OUTSIDE_TRADING_WINDOW", {"trading_start": "09:00:00", "trading_end": "12:00:00"}, {"trading_start": "10:00:00"}),
    ("OUTSIDE_TRADING_WINDOW", {"days": ["MON"]}, {"days": ["MON"], "timezone": "Asia/Tokyo"}),
    ("MARKET_CLOSED", {"calendar": "XNYS"}, {"calendar": "XETR"}),
    ("MARKET_CLOSED", {"calendar": "XNYS"}, {"calendar": "XNYS", "session": "OVERNIGHT"}),
    ("NOTIONAL_MAX", _VALUE, _VALUE | {"currency": "EUR"}),
    ("DAY_NOTIONAL_MAX", _VALUE, _VALUE | {"currency": "EUR"}),
    ("GROSS_MAX", _VALUE, _VALUE | {"ref_max_age_millis": 1}),
    ("BUYING_POWER", {"currency": "USD"}, {"currency": "EUR"}),
    ("LOSS_MAX", _VALUE, _VALUE | {"timezone": "Asia/Tokyo"}),
    ("DAY_NOTIONAL_MAX", _VALUE, _VALUE | {"timezone": "Asia/Tokyo"}),
    ("NOTIONAL_MAX", _VALUE, _VALUE | {"ref_max_age_millis": 1}),
    ("NOTIONAL_MAX", _VALUE, {"value": "99", "currency": "USD", "buffer_percent": "4"}),
    ("TICK", {"tick": "0.02"}, {"tick": "0.05"}),
    ("LOT", {}, {"lot": "1"}),
    ("PRICE_COLLAR", _COLLAR, _COLLAR | {"passive_percent": "9"}),
    ("PRICE_COLLAR", _COLLAR, _COLLAR | {"ref_max_age_millis": 1}),
    ("PRICE_COLLAR", _COLLAR, {"up_percent": "4", "down_percent": "6"}),
    ("RATE_ORDERS", {"count": 5, "window_millis": 1000}, {"count": 4, "window_millis": 999}),
    ("OPEN_ORDERS_MAX", {"count": 5}, {"count": 4, "per": "SYMBOL"}),
]
_SOON, _LATER = "2036-01-05T21:00:00Z", "2036-01-06T21:00:00Z"
_HARD = {"mode": "HARD", "parameters": {"quantity": "10"}}
_RAISED = {"mode": "HARD", "parameters": {"quantity": "20"}}
# Bodies of QTY_MAX that differ in more than its parameters. The permanent terms are those of _HARD in all of them.
TERMS: list[tuple[str, Parameters, Parameters]] = [
    ("mode", _HARD | {"mode": "SHADOW"}, _HARD),
    ("on_missing allow", _HARD | {"on_missing": "ALLOW"}, _HARD),
    ("on_missing deny", _HARD, _HARD | {"on_missing": "DENY"}),
    ("raised for a time", _RAISED | {"expires_at": _SOON}, _HARD),
    ("raised for a longer time", _RAISED | {"expires_at": _LATER}, _RAISED | {"expires_at": _SOON}),
]
# Bodies of PATCH …/time. The looser one clears what the stricter one sets, unless it is given.
TIMES: list[tuple[str, Parameters, Parameters]] = [
    ("window", {"clear": ["trading_start"]}, {"trading_start": "09:30:00"}),
    ("earlier start", {"trading_start": "09:00:00"}, {"trading_start": "09:30:00"}),
    ("days", {"clear": ["days"]}, {"days": ["MON"]}),
    ("calendar", {"clear": ["calendar"]}, {"calendar": "XNYS"}),
    ("session", {"calendar": "XNYS", "session": "ANY"}, {"calendar": "XNYS", "session": "REGULAR"}),
    ("age", {"clear": ["stale_order_millis"]}, {"stale_order_millis": 5}),
    ("longer age", {"stale_order_millis": 6}, {"stale_order_millis": 5}),
    ("rest", {"clear": ["max_resting_millis"]}, {"max_resting_millis": 5000}),
    ("close", {"calendar": "XNYS", "on_close": "LEAVE"}, {"calendar": "XNYS", "on_close": "CANCEL"}),
]
CLEAR_TIMES = {
    "clear": [
        *("trading_start", "trading_end", "timezone", "days", "calendar", "session"),
        *("stale_order_millis", "max_resting_millis", "on_close"),
    ]
}
