"""What a bot asked, what it was answered, and when: all that can be known of it from outside."""

import time
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from openbell_exchange.faults import Fault
from openbell_torture.alpaca.application import Asked
from openbell_torture.faults import EndpointFault

# Of the task that serves it.
_CURRENT: Final[ContextVar["Entry"]] = ContextVar("entry")
# After these, an order does not fill any more.
ENDS: Final = frozenset({"filled", "canceled", "expired", "rejected"})


@dataclass(slots=True)
class Entry:
    """One request: `status` is None as long as no answer was sent."""

    ordinal: int
    at: float
    asked: Asked
    fault: Fault | EndpointFault = Fault.NONE
    # The id of the order that it named at the exchange.
    order_name: str | None = None
    status: int | None = None

    @property
    def is_submit(self) -> bool:
        return self.asked.method == "POST"

    @property
    def is_accepted(self) -> bool:
        """Whether the bot got the answer that it was done."""
        return self.status is not None and self.status < 300

    @property
    def text(self) -> str:
        fields = self.asked.fields
        if self.is_submit:
            price = " ".join(
                f"{name[:-6]} {fields[name]}" for name in ("limit_price", "stop_price") if fields.get(name)
            )
            parts = (fields.get("side"), fields.get("qty"), fields.get("symbol"), fields.get("type"), price)
            return " ".join(str(part) for part in parts if part)
        return f"{self.asked.method} {self.asked.path}"


@dataclass(slots=True)
class KnownOrder:
    """The last state of an order that a bot received."""

    at: float
    status: str
    filled: Decimal


@dataclass(slots=True)
class Journal:
    """Implements Observer."""

    entries: list[Entry] = field(default_factory=list)
    # By Alpaca's id of the order.
    known: dict[str, KnownOrder] = field(default_factory=dict)
    # What the bot states that it holds, if it does: shares by symbol.
    believed: dict[str, Decimal] | None = None
    _begun: float = field(default_factory=time.monotonic)

    @property
    def now(self) -> float:
        """Seconds since the bot was started."""
        return time.monotonic() - self._begun

    def begin(self) -> None:
        self._begun = time.monotonic()

    def asked(self, asked: Asked) -> Entry:
        entry = Entry(len(self.entries) + 1, self.now, asked)
        self.entries.append(entry)
        _CURRENT.set(entry)
        return entry

    def met(self, fault: Fault | EndpointFault, order_name: str | None) -> None:
        """What the plan has for the command that is being served."""
        entry = _CURRENT.get()
        entry.fault, entry.order_name = fault, order_name

    def answered(self, of: object, status: int, body: object) -> None:
        assert isinstance(of, Entry)
        of.status = status
        self.streamed(body)

    def streamed(self, body: object) -> None:
        """Take note of every order in a message."""
        for order in _orders_in(body):
            filled = Decimal(order["filled_qty"])
            last = self.known.get(order["id"])
            # Messages may overtake each other.
            if last is None or last.status not in ENDS or filled > last.filled:
                self.known[order["id"]] = KnownOrder(self.now, order["status"], filled)


def _orders_in(body: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(body, Mapping):
        if "client_order_id" in body and "filled_qty" in body:
            yield body
        else:
            for value in body.values():
                yield from _orders_in(value)
    elif isinstance(body, list):
        for value in body:
            yield from _orders_in(value)
