"""How Tradier reads who calls, how it says no, and an order of the engine as Tradier has it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import httpx
import msgspec

from openbell_server.brokers.paper.wire import LedgerOrderBody
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.orders.broker_reports import ReportStatus
from openbell_server.domain.orders.order_terms import EXACT, OrderSide, OrderType, TimeInForce, exact_total

Json = dict[str, Any]

TOKENS: Final = {Environment.PAPER: "sandbox", Environment.LIVE: "live"}
TYPES: Final = {
    "market": OrderType.MARKET,
    "limit": OrderType.LIMIT,
    "stop": OrderType.STOP,
    "stop_limit": OrderType.STOP_LIMIT,
}
DURATIONS: Final = {"day": TimeInForce.DAY, "gtc": TimeInForce.GOOD_TILL_CANCEL}
SIDES: Final = {"buy": OrderSide.BUY, "sell": OrderSide.SELL, "sell_short": OrderSide.SELL_SHORT}
_WORDS: Final = {ours: theirs for words in (TYPES, DURATIONS, SIDES) for theirs, ours in words.items()}
_STATUSES: Final = {
    ReportStatus.FILLED: "filled",
    ReportStatus.CANCELED: "canceled",
    ReportStatus.EXPIRED: "expired",
}
_PLACES: Final = Decimal("0.00000001")
# Numbers are numbers here, with as many digits as they have.
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")
_BACK_OFFICE: Final = "Backoffice rejected override of the order."


class Answer(Exception):
    """What is said instead of a yes."""

    def __init__(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        """A text stays one, as Tradier has it; everything else is JSON."""
        super().__init__(f"{status}: {body}")
        self.status = status
        self.content = body.encode() if isinstance(body, str) else encode(body)
        self.content_type = b"text/plain" if isinstance(body, str) else b"application/json;charset=UTF-8"
        self.headers = headers or {}


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose token a request bears."""

    account_id: UUID

    @property
    def number(self) -> str:
        """Tradier's own name of the account."""
        return number_of(self.account_id)


def number_of(account_id: UUID) -> str:
    """The number of an account."""
    return f"VA{account_id.int % 10**12:012}"


def token_of(account_id: UUID, environment: Environment) -> str:
    """A token says whose it is; each address lets in its own only."""
    return f"{TOKENS[environment]}-{account_id.hex}"


def caller(header: str, environment: Environment) -> Caller:
    """Whoever bears a token that is let in at this address."""
    kind, _, name = header.removeprefix("Bearer ").partition("-")
    try:
        account_id = UUID(name)
    except ValueError:
        account_id = None
    if account_id is None or kind != TOKENS[environment] or not header.startswith("Bearer "):
        raise fault(401, "Invalid Access Token", "keymanagement.service.invalid_access_token")
    return Caller(account_id)


def fault(status: int, text: str, code: str, headers: Mapping[str, str] | None = None) -> Answer:
    """What the gateway before Tradier says."""
    return Answer(status, {"fault": {"faultstring": text, "detail": {"errorcode": code}}}, headers)


def unauthorized(number: str) -> Answer:
    """To whoever asks for another's account, and for an order that is not there."""
    return Answer(401, f"Unauthorized Account: {number}")


def errors(*said: str) -> Answer:
    """What went wrong behind the API is said under 200, in one text or in several."""
    return Answer(200, {"errors": {"error": said[0] if len(said) == 1 else list(said)}})


def check(reply: httpx.Response, who: Caller) -> None:
    """Raise Tradier's no for any answer of the engine that is not a yes."""
    if reply.is_success:
        return
    if reply.is_server_error:
        raise Answer(reply.status_code, "<html><body>Internal Server Error</body></html>")
    code, text = str(reply.json().get("code")), str(reply.json().get("text"))
    is_cancel = reply.request.method == "DELETE"
    if code == "too_many_requests":
        calm = reply.headers.get("retry-after")
        limits = {"X-Ratelimit-Available": "0", **({} if calm is None else {"Retry-After": calm})}
        raise fault(429, "Rate limit quota violation", "policies.ratelimit.QuotaViolation", limits)
    if code == "refused":
        raise errors("TradingDeniedForAccount") if is_cancel else errors(_BACK_OFFICE, "TradingDeniedForAccount")
    if code == "insufficient_buying_power":
        raise errors(_BACK_OFFICE, "InitialMargin")
    if code in {"malformed", "invalid_order"}:
        raise Answer(400, f"Invalid parameter, order: {text}")
    if code == "unknown_order":
        raise unauthorized(who.number)
    if code == "order_closed":
        raise Answer(400, f"order already in finalized state: {text.rpartition(' ')[2].lower()}")
    # What was done all the same.
    raise Answer(400, "order is not cancelable") if is_cancel else errors(_BACK_OFFICE)


def encode(body: object) -> bytes:
    """An answer."""
    return _ENCODER.encode(body)


def several(name: str, found: Sequence[object]) -> Json | str:
    """A list as it is after a way through XML: one is itself, none is a word."""
    return {name: found[0] if len(found) == 1 else found} if found else "null"


def order_json(order: LedgerOrderBody, *, tags: bool) -> Json:
    """An order."""
    quantity, filled = Decimal(order.quantity), Decimal(order.filled_quantity)
    last = order.executions[-1] if order.executions else None
    prices = {"price": order.limit_price, "stop_price": order.stop_price}
    return {
        "id": order.number,
        "type": _WORDS[order.type],
        "symbol": order.symbol,
        "side": _WORDS[order.side],
        "quantity": _number(quantity),
        "status": status_of(order),
        "duration": _WORDS[order.time_in_force],
        **{name: Decimal(price) for name, price in prices.items() if price is not None},
        "avg_fill_price": _number(_average(order, filled)),
        "exec_quantity": _number(filled),
        "last_fill_price": _number(Decimal(last.price if last else 0)),
        "last_fill_quantity": _number(Decimal(last.quantity if last else 0)),
        "remaining_quantity": _number(EXACT.subtract(quantity, filled)),
        "create_date": time_text(order.accepted_at),
        "transaction_date": time_text(last.executed_at if last else order.accepted_at),
        "class": "equity",
        **({"tag": order.client_order_id} if tags else {}),
    }


def status_of(order: LedgerOrderBody) -> str:
    """How it stands; one that was just taken waits for a moment, now and then."""
    if order.status is ReportStatus.WORKING:
        return "partially_filled" if Decimal(order.filled_quantity) else ("open", "pending")[order.number % 2]
    return _STATUSES[order.status]


def time_text(time: datetime) -> str:
    """A time, to the millisecond."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _average(order: LedgerOrderBody, filled: Decimal) -> Decimal:
    """The price of all that has filled, after all that was said of it."""
    if not filled:
        return Decimal(0)
    now = {fill.execution_id: (fill.quantity, fill.price) for fill in order.executions}
    now |= {change.execution_id: (change.quantity, change.price) for change in order.changes}
    value = exact_total(EXACT.multiply(Decimal(quantity), Decimal(price)) for quantity, price in now.values())
    return EXACT.divide(value, filled)


def _number(number: Decimal) -> Decimal:
    """With eight places, as nearly all numbers are."""
    return EXACT.quantize(number, _PLACES)
