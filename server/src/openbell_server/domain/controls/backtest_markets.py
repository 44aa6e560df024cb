"""Market data that receipts recorded when a command was evaluated; data that no rule used then is not recorded."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from openbell_server.domain.controls.facts import Holding, Rate, ReferencePrice
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.markets.instruments import Instrument


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """Price, instrument and exchange rates of a moment; None where they are not recorded."""

    price: ReferencePrice | None = None
    instrument: Instrument | None = None
    # Codes of the rules for which the instrument, or its absence, is as complete as it was then.
    instrument_known_to: frozenset[str] = frozenset()
    rates_of_exchange: Mapping[tuple[str, str], Rate] = field(default_factory=dict)
    # The value of what the account held in other symbols, by currency.
    others: Mapping[str, Decimal] = field(default_factory=dict)


NOTHING_RECALLED: Final = Recalled()


@dataclass(slots=True)
class ReceiptLine:
    """One rule's line in a receipt, as far as it has market data."""

    code: str
    limit: Any = None
    inputs: dict[str, str] = field(default_factory=dict)


def recalled(symbol: Symbol, lines: Iterable[ReceiptLine]) -> Recalled:
    tick, lot, known = None, None, set()
    price: ReferencePrice | None = None
    multiplier, currency = Decimal(1), ""
    rates: dict[tuple[str, str], Rate] = {}
    others: dict[str, Decimal] = {}
    for line in lines:
        inputs = line.inputs
        if not inputs:
            continue
        if price is None or price.bid is None:
            # Only lines of rules that used bid and ask have them.
            price = _price(inputs) or price
        match line.code:
            case "NOTIONAL_MAX" | "DAY_NOTIONAL_MAX" | "GROSS_MAX" if "multiplier" in inputs:
                known |= {"NOTIONAL_MAX", "DAY_NOTIONAL_MAX", "GROSS_MAX"}
                if "others" in inputs:
                    others[inputs["currency"]] = Decimal(inputs["others"])
                multiplier, currency = Decimal(inputs["multiplier"]), inputs.get("quote_currency", inputs["currency"])
                if "exchange_rate" in inputs:
                    as_of = datetime.fromisoformat(inputs["exchange_rate_as_of"])
                    rates[currency, inputs["currency"]] = Rate(rate=Decimal(inputs["exchange_rate"]), as_of=as_of)
            case "TICK" if line.limit is not None:
                known.add("TICK")
                tick = Decimal(line.limit) if inputs.get("tick_source") == "broker" else None
            case "LOT" if line.limit is not None and inputs.get("lot_source") == "broker":
                known.add("LOT")
                lot = Decimal(line.limit)
    if price is None and not known:
        return NOTHING_RECALLED
    instrument = replace(_share(symbol, currency), tick=tick, lot=lot, multiplier=multiplier)
    return Recalled(
        price=price,
        instrument=instrument if known else None,
        instrument_known_to=frozenset(known),
        rates_of_exchange=rates,
        others=others,
    )


def held_elsewhere(value: Decimal | None, currency: str, at: datetime) -> Holding:
    """Other symbols as one, worth a recorded value; None: it was not recorded."""
    symbol = Symbol("OTHERS")
    price = None if value is None else ReferencePrice(price=value, as_of=at, source="recorded")
    return Holding(symbol=symbol, quantity=Decimal(1), price=price, instrument=_share(symbol, currency))


def _share(symbol: Symbol, currency: str) -> Instrument:
    return Instrument(symbol=symbol, asset_class="", quote_currency=currency, tradable=True, fractional=True)


def _price(inputs: Mapping[str, str]) -> ReferencePrice | None:
    if "reference_price" not in inputs:
        return None
    bid, ask = inputs.get("bid"), inputs.get("ask")
    return ReferencePrice(
        price=Decimal(inputs["reference_price"]),
        as_of=datetime.fromisoformat(inputs["reference_as_of"]),
        source=inputs["reference_source"],
        bid=None if bid is None else Decimal(bid),
        ask=None if ask is None else Decimal(ask),
    )
