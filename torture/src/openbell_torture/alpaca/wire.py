"""How Alpaca reads keys and requests, and how it refuses."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

import msgspec

from openbell_exchange.decisions import DENIED_ALTHOUGH_DONE, Refusal
from openbell_exchange.terms import EXACT

# The paper and the live address let in different keys.
_PREFIXES: Final = {False: "PK", True: "AK"}
# A key that ends so belongs to an account which was closed.
CLOSED: Final = "CLOSED"
WRONG: Final = "wrong"
QUANTITY_DECIMALS: Final = 9
UNIQUE: Final = "client_order_id must be unique"
_KEY: Final = re.compile(rf"(PK|AK)([0-9A-F]{{32}})({CLOSED})?")
# Decimals are numbers here: what Alpaca sends as a string is a string already.
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")
# By the engine's code: status, code and text, where Alpaca does not repeat the engine's.
_REFUSALS: Final[dict[str, tuple[int, int, str | None]]] = {
    "malformed": (422, 40010001, None),
    "key_refused": (401, 40110000, "request is not authorized"),
    "key_expired": (401, 40110000, "request is not authorized"),
    "unknown_order": (404, 40410000, "order not found"),
    "duplicate_client_order_id": (422, 40010001, UNIQUE),
    "too_many_requests": (429, 42910000, "rate limit exceeded"),
    "order_closed": (422, 42210000, None),
    "insufficient_buying_power": (403, 40310000, "insufficient buying power"),
    "insufficient_position": (403, 40310000, "insufficient qty available for order"),
    "unknown_symbol": (422, 42210000, "asset not found"),
    "off_tick": (422, 42210000, "invalid price: sub-penny increment does not fulfill minimum pricing criteria"),
    "invalid_order": (422, 42210000, None),
    "refused": (403, 40310000, "new orders are rejected by user request"),
}
# What was done all the same: Alpaca has answered so after replaces that it had made.
_LOOK_ALIKES: Final = {
    "POST": (403, 40310999, "order not permitted"),
    "PATCH": (422, 42210000, "unable to replace order, order isn't sent to exchange yet"),
    "DELETE": (422, 42210999, "order is not cancelable"),
}


class Refused(Exception):
    """Alpaca's no."""

    def __init__(self, status: int, code: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"code": code, "message": message}
        self.headers = headers or {}


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose key a request is signed with."""

    account_id: UUID
    key_id: str
    secret: str

    @property
    def is_closed(self) -> bool:
        """Whether the account was closed."""
        return self.key_id.endswith(CLOSED)

    def __repr__(self) -> str:
        return f"Caller({self.key_id!r}, ***)"


def key_id_of(account_id: UUID, *, is_live: bool = False) -> str:
    """The key of an account."""
    return _PREFIXES[is_live] + account_id.hex.upper()


def account_of(key_id: str) -> UUID | None:
    """Whose key it is, good or not."""
    found = _KEY.fullmatch(key_id)
    return UUID(found[2]) if found else None


def caller(key_id: str, secret: str, *, is_live: bool = False) -> Caller:
    """Whoever signs so, if the key is let in at this address."""
    account_id = account_of(key_id)
    if account_id is None or not key_id.startswith(_PREFIXES[is_live]) or secret in {"", WRONG}:
        raise Refused(401, 40110000, "request is not authorized")
    return Caller(account_id, key_id, secret)


def encode(body: object) -> bytes:
    """An answer."""
    return _ENCODER.encode(body)


def fields_of(content: bytes) -> dict[str, Any]:
    """A body whose numbers are exact, however they are written."""
    try:
        read = json.loads(content or b"{}", parse_float=Decimal, parse_int=Decimal)
    except ValueError as trouble:
        raise Refused(400, 40010000, "request body format is invalid") from trouble
    if not isinstance(read, dict):
        raise Refused(400, 40010000, "request body format is invalid")
    return read


def number_in(fields: Mapping[str, Any], name: str) -> Decimal | None:
    """A number, whether it came as one or as a string."""
    given = fields.get(name)
    if given is None:
        return None
    try:
        number = Decimal(given)
    except (InvalidOperation, TypeError, ValueError) as trouble:
        raise Refused(422, 40010001, f"{name} must be a number") from trouble
    if not number.is_finite() or number <= 0:
        raise Refused(422, 40010001, f"{name} must be > 0")
    # As it will be shown: 10, also where 10.0 was asked.
    return number.normalize(EXACT)


def quantity_in(fields: Mapping[str, Any]) -> Decimal | None:
    """The qty, with no more digits than Alpaca has."""
    quantity = number_in(fields, "qty")
    if quantity is not None and quantity != round(quantity, QUANTITY_DECIMALS):
        raise Refused(422, 42210000, f"qty can have at most {QUANTITY_DECIMALS} decimals")
    return quantity


def translated(refusal: Refusal, method: str) -> Refused:
    """A refusal of the engine as Alpaca sends it."""
    if refusal.code == DENIED_ALTHOUGH_DONE:
        return Refused(*_LOOK_ALIKES[method])
    text = refusal.text
    if refusal.code == "order_closed":
        text = f'order is already in "{text.rpartition(" ")[2].lower()}" state'
    status, number, message = _REFUSALS[refusal.code]
    headers = {} if refusal.retry_after is None else {"retry-after": str(refusal.retry_after)}
    return Refused(status, number, message or text, headers)
