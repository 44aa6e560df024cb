"""Market data that receipts recorded when a command was evaluated; data that no rule used then is not recorded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from openbell_server.domain.controls.facts import Holding, Rate, ReferencePrice
from openbell_server.domain.controls.kinds.losses import MeasuredFrom
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.markets.instruments import Instrument
from openbell_server.domain.money.balances import FreeBuyingPower
from openbell_server.domain.money.losses import LossMark

Losses = Mapping[tuple[str, str, str], Decimal]


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
    # The largest loss of the day, by currency, time zone and what it was measured from.
    losses: Losses = field(default_factory=dict)
    funds: FreeBuyingPower | None = None


_OF_VALUES: Final = frozenset({"NOTIONAL_MAX", "DAY_NOTIONAL_MAX", "GROSS_MAX", "BUYING_POWER"})
NOTHING_RECALLED: Final = Recalled()


@dataclass(slots=True)
class ReceiptLine:
    """One rule's line in a receipt, as far as it has market data."""

    code: str
    limit: Any = None
    inputs: dict[str, str] = field(default_factory=dict)


def recalled(symbol: Symbol, lines: Sequence[ReceiptLine]) -> Recalled:
    tick, lot, known = None, None, set[str]()
    price: ReferencePrice | None = None
    multiplier, currency = Decimal(1), ""
    rates: dict[tuple[str, str], Rate] = {}
    others: dict[str, Decimal] = {}
    losses = _losses(lines)
    for line in lines:
        inputs = line.inputs
        if not inputs:
            continue
        if price is None or price.bid is None:
            # Only lines of rules that used bid and ask have them.
            price = _price(inputs) or price
        match line.code:
            case code if code in _OF_VALUES and "multiplier" in inputs:
                known |= _OF_VALUES
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
    if price is None and not known and not losses:
        return NOTHING_RECALLED
    instrument = replace(_share(symbol, currency), tick=tick, lot=lot, multiplier=multiplier)
    return Recalled(
        price=price,
        instrument=instrument if known else None,
        instrument_known_to=frozenset(known),
        rates_of_exchange=rates,
        others=others,
        losses=losses,
        funds=_funds(lines),
    )


def _losses(lines: Sequence[ReceiptLine]) -> dict[tuple[str, str, str], Decimal]:
    named = [line.inputs for line in lines if line.code == "LOSS_MAX" and "loss" in line.inputs]
    return {(each["currency"], each["timezone"], each["measured_from"]): Decimal(each["loss"]) for each in named}


def _funds(lines: Sequence[ReceiptLine]) -> FreeBuyingPower | None:
    for inputs in (line.inputs for line in lines if line.code == "BUYING_POWER" and "reserved" in line.inputs):
        return FreeBuyingPower(
            currency=inputs["currency"],
            buying_power=Decimal(inputs["buying_power"]),
            reserved=Decimal(inputs["reserved"]),
            as_of=datetime.fromisoformat(inputs["balances_as_of"]),
        )
    return None


def lost_then(losses: Losses, place: tuple[str, str], at: datetime) -> LossMark:
    """The losses that were recorded; one that was not is of no limit that is asked for."""
    nothing = Decimal(0)
    return LossMark(
        day=at.date(),
        opening=nothing,
        highest=nothing,
        profit=nothing,
        lost_from_opening=losses.get((*place, MeasuredFrom.OPENING), nothing),
        lost_from_highest=losses.get((*place, MeasuredFrom.HIGHEST), nothing),
        as_of=at,
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
