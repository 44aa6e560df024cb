"""What each kind of control says of commands: what passes, what is refused, the exact edges, what is missing."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from openbell_server.domain.controls.facts import Facts, Rate
from openbell_server.domain.identifiers import Symbol
from support.builders.control_commands import (
    BUY,
    NOW,
    SELL,
    SHORT,
    Case,
    ago,
    asks,
    cases_of,
    changes,
    holds,
    judged,
    knows,
    missing_of,
    priced,
    share,
)
from support.builders.control_exposure_cases import EXPOSURE_CASES
from support.builders.control_time_cases import TIME_CASES


def _switches() -> Iterator[Case]:
    def switch(state: str) -> dict[str, Any]:
        return {"status": state, "cancel_working": False}

    halted, reduce = {"found_as": "HALTED"}, {"found_as": "REDUCE_ONLY"}
    yield from cases_of("SWITCH", switch("ACTIVE"), ("pass", "active", asks(), knows(), True), **halted)
    yield from cases_of(
        "SWITCH",
        switch("HALTED"),
        ("refuse", "halted", asks(), knows(), False, {"observed": "HALTED", "limit": "ACTIVE"}),
        ("refuse", "halted for a SELL that would reduce", asks(SELL), holds("100"), False),
        ("refuse", "halted for a REPLACE of more", changes(asks(quantity="11"), quantity="10"), knows(), False),
        **halted,
    )
    more = changes(asks(SELL, "12"), quantity="11", filled="4")
    yield from cases_of(
        "SWITCH",
        switch("REDUCE_ONLY"),
        ("pass", "sells some of what is held", asks(SELL), holds("11"), True),
        ("edge", "sells all that is held", asks(SELL), holds("10"), True, {"limit": "10", "observed": "10"}),
        ("edge", "sells a hair more than is held", asks(SELL, "10.000000000000000001"), holds("10"), False),
        ("edge", "sells what is not being sold yet", asks(SELL), holds("15", sells="5"), True),
        ("edge", "sells what is being sold", asks(SELL), holds("15", sells="5.01"), False, {"limit": "9.99"}),
        ("refuse", "sells while short", asks(SELL), holds("-100"), False, {"limit": "0"}),
        ("refuse", "sells while flat", asks(SELL), holds("0"), False),
        ("edge", "buys all that is short", asks(), holds("-10"), True),
        ("edge", "buys a hair more", asks(BUY, "10.1"), holds("-10"), False),
        ("edge", "buys what is not being bought yet", asks(), holds("-12", buys="2"), True),
        ("edge", "buys what is being bought", asks(), holds("-12", buys="3"), False),
        ("refuse", "buys while long", asks(), holds("100"), False),
        ("refuse", "sells short", asks(SHORT, "1"), holds("100"), False, {"limit": ["BUY", "SELL"]}),
        ("refuse", "sells short, nobody knows what is held", asks(SHORT, "1"), knows(), False),
        ("edge", "a REPLACE of which 8 may still fill", more, holds("8"), True, {"observed": "8"}),
        ("edge", "a REPLACE of which 8 may still fill, of 7.9", more, holds("7.9"), False),
        **reduce,
    )
    unknown = ("no position was ever told", asks(SELL), holds(None)), ("no exposure", asks(), knows())
    yield from missing_of("SWITCH", switch("REDUCE_ONLY"), *unknown, denies_always=True, **reduce)


def _lists() -> Iterator[Case]:
    off = {"manually_disabled": True, "manual_reason": "earnings"}
    yield from cases_of(
        "SYMBOL_DISABLED",
        off,
        ("refuse", "switched off", asks(), knows(), False, {"limit": "enabled", "observed": "disabled: earnings"}),
        ("edge", "switched off for a SELL", asks(SELL), holds("10"), False),
        ("pass", "switched on again", asks(), knows(), True, {"parameters": {"manually_disabled": False}}),
    )
    deny, allow = {"list": "DENY", "symbols": ["AAPL", "MSFT"]}, {"list": "ALLOW_ONLY", "symbols": ["AAPL"]}
    other = asks(symbol=Symbol("AAPLX"))
    yield from cases_of(
        "RESTRICTED",
        deny,
        ("refuse", "denied", asks(), knows(), False, {"limit": ["AAPL", "MSFT"], "observed": "AAPL"}),
        ("pass", "not denied", other, knows(), True),
        ("edge", "an empty list denies nothing", asks(), knows(), True, {"parameters": {**deny, "symbols": []}}),
        ("pass", "allowed", asks(), knows(), True, {"parameters": allow}),
        ("refuse", "not allowed", other, knows(), False, {"parameters": allow}),
        ("edge", "an empty list allows nothing", asks(), knows(), False, {"parameters": {**allow, "symbols": []}}),
    )
    long_only, buys = {"no_short": True}, {"sides": ["BUY"]}
    both = {"sides": ["BUY", "SELL_SHORT"], "no_short": True}
    yield from cases_of(
        "SIDE_NOT_ALLOWED",
        long_only,
        ("pass", "a BUY", asks(), knows(), True),
        ("refuse", "a SELL_SHORT", asks(SHORT), holds("100"), False, {"limit": ["BUY", "SELL"]}),
        ("edge", "sells all that is held", asks(SELL), holds("10"), True, {"limit": "10", "observed": "10"}),
        ("edge", "sells more than is held", asks(SELL, "10.1"), holds("10"), False),
        ("edge", "sells what is being sold", asks(SELL), holds("10", sells="0.1"), False, {"limit": "9.9"}),
        ("edge", "what is being bought is not held yet", asks(SELL), holds("9", buys="1"), False),
        ("refuse", "another side than the allowed", asks(SELL), knows(), False, {"parameters": buys}),
        ("pass", "an allowed side", asks(), knows(), True, {"parameters": buys}),
        ("refuse", "an allowed side that is short", asks(SHORT), knows(), False, {"parameters": both}),
    )
    yield from missing_of("SIDE_NOT_ALLOWED", long_only, ("no position was ever told", asks(SELL), holds(None)))


def _sizes() -> Iterator[Case]:
    for code, wrong, right in (("QTY_MAX", "100.000000000000000001", "99"), ("QTY_MIN", "99.9", "101")):
        yield from cases_of(
            code,
            {"quantity": "100"},
            ("pass", "inside", asks(quantity=right), knows(), True),
            ("edge", "the limit itself", asks(quantity="100.0"), knows(), True, {"limit": "100", "observed": "100.0"}),
            ("refuse", "outside", asks(quantity=wrong), knows(), False),
            ("edge", "a hair outside", asks(quantity=wrong), knows(), False),
        )
    yield from cases_of(
        "QTY_MAX",
        {"quantity": "100"},
        ("edge", "of a REPLACE the whole", changes(asks(quantity="101"), quantity="90", filled="50"), knows(), False),
    )


def _increments() -> Iterator[Case]:
    cents, whole = knows(instrument=share(tick=Decimal("0.01"))), knows(instrument=share(fractional=False))
    yield from cases_of(
        "TICK",
        {},
        ("pass", "on the tick", asks(limit="1.23"), cents, True, {"limit": "0.01", "observed": "1.23"}),
        ("edge", "on the tick with more zeros", asks(limit="1.230"), cents, True),
        ("refuse", "between ticks", asks(limit="1.235"), cents, False, {"observed": "1.235"}),
        ("edge", "below one tick", asks(limit="0.009"), cents, False),
        ("refuse", "the stop between ticks", asks(limit="1", stop="1.001"), cents, False, {"observed": "1.001"}),
        ("pass", "a tick of the rule", asks(stop="1.25"), knows(), True, {"parameters": {"tick": "0.05"}}),
        (
            "refuse",
            "the broker's, not the rule's",
            asks(stop="1.255"),
            cents,
            False,
            {"parameters": {"tick": "0.005"}},
        ),
    )
    yield from missing_of(
        "TICK",
        {},
        ("no instrument", asks(limit="1"), knows()),
        ("no tick", asks(stop="1"), knows(instrument=share())),
    )
    lots = knows(instrument=share(lot=Decimal("0.25")))
    yield from cases_of(
        "LOT",
        {},
        ("pass", "a multiple", asks(quantity="1.75"), lots, True, {"limit": "0.25"}),
        ("refuse", "no multiple", asks(quantity="1.8"), lots, False, {"observed": "1.8"}),
        ("edge", "one lot", asks(quantity="0.25"), lots, True),
        ("edge", "a hair more", asks(quantity="0.250000000000000001"), lots, False),
        ("refuse", "a part of what is whole", asks(quantity="1.5"), whole, False, {"limit": "1"}),
        ("edge", "whole", asks(quantity="2.0"), whole, True),
        (
            "refuse",
            "not whole, though a lot",
            asks(quantity="0.5"),
            knows(instrument=share(lot=Decimal("0.5"), fractional=False)),
            False,
            {"limit": "1"},
        ),
        ("refuse", "the lot of the rule", asks(quantity="150"), whole, False, {"parameters": {"lot": "100"}}),
    )
    yield from missing_of(
        "LOT", {}, ("no instrument", asks(), knows()), ("fractional without a lot", asks(), knows(instrument=share()))
    )


def _repeats() -> Iterator[Case]:
    duplicate = {"window_millis": 1000}
    yield from cases_of(
        "DUPLICATE",
        duplicate,
        ("pass", "none is equal", asks(), knows(equal_orders=[]), True, {"limit": 0, "observed": 0}),
        ("refuse", "one was equal just now", asks(), knows(equal_orders=ago(1)), False, {"observed": 1}),
        ("refuse", "two were equal", asks(), knows(equal_orders=ago(1, 999)), False, {"observed": 2}),
        ("edge", "exactly as old as the window", asks(), knows(equal_orders=ago(1000)), True, {"observed": 0}),
        ("edge", "younger by a microsecond", asks(), knows(equal_orders=ago(999.999)), False),
        ("edge", "by a clock that went back", asks(), knows(equal_orders=ago(-5)), False),
        ("edge", "the default window", asks(), knows(equal_orders=ago(999)), False, {"parameters": {}}),
    )
    yield from missing_of("DUPLICATE", duplicate, ("no list", asks(), knows()))
    three = {"count": 3, "window_millis": 1000}
    yield from cases_of(
        "RATE_ORDERS",
        three,
        ("pass", "the first", asks(), judged(), True, {"limit": 3, "observed": 1}),
        ("edge", "the third", asks(), judged(0, 999), True, {"observed": 3}),
        ("refuse", "the fourth", asks(), judged(0, 1, 2), False, {"observed": 4}),
        ("edge", "the oldest exactly as old as the window", asks(), judged(0, 999, 1000), True, {"observed": 3}),
        ("edge", "the oldest younger by a microsecond", asks(), judged(0, 999, 999.999), False),
        ("refuse", "a REPLACE counts", changes(asks(quantity="11"), quantity="10"), judged(0, 1, 2), False),
    )
    yield from missing_of("RATE_ORDERS", three, ("not counted", asks(), knows()))


def _values() -> Iterator[Case]:
    thousand = {"value": "1000", "currency": "USD"}
    bare = {"parameters": {**thousand, "buffer_percent": "0"}}
    usd, hundred = knows(instrument=share()), knows(instrument=share(), price=priced("100"))
    cheap = knows(instrument=share(), price=priced("1"))
    old = knows(instrument=share(), price=priced("100", 15_000))
    dearer = changes(asks(limit="101"), quantity="9", limit="101", filled="8")
    cheaper = changes(asks(SELL, limit="1"), quantity="9", limit="1", filled="8")
    yield from cases_of(
        "NOTIONAL_MAX",
        thousand,
        ("pass", "a limit below", asks(limit="99"), usd, True, {"limit": "1000", "observed": "990"}),
        ("edge", "a limit at the value", asks(limit="100"), usd, True, {"observed": "1000"}),
        ("refuse", "a limit above", asks(limit="101"), usd, False, {"observed": "1010"}),
        ("edge", "a hair above", asks(quantity="10.000000000000000001", limit="100"), usd, False),
        ("edge", "a BUY by its limit, below the market", asks(quantity="1000", limit="1"), hundred, True),
        ("edge", "a stop limit BUY by its limit, below its stop", asks(limit="100", stop="200"), usd, True),
        ("edge", "a stop limit BUY by its limit, above its stop", asks(limit="100.01", stop="1"), usd, False),
        ("edge", "no buffer", asks(), hundred, True, bare),
        ("refuse", "a multiplier", asks(limit="11"), knows(instrument=share(multiplier=Decimal(100))), False),
        ("edge", "a multiplier at the value", asks(limit="1"), knows(instrument=share(multiplier=Decimal(100))), True),
        ("refuse", "too much even for a share", asks(limit="101"), knows(), False),
        ("edge", "of a REPLACE the whole", dearer, usd, False),
    )
    # Only the limit of a BUY is the highest price at which an order can trade.
    yield from cases_of(
        "NOTIONAL_MAX",
        thousand,
        ("refuse", "a market BUY with the buffer", asks(), hundred, False, {"observed": "1050"}),
        ("refuse", "a market SELL with the buffer", asks(SELL), hundred, False, {"observed": "1050"}),
        ("edge", "a market SELL at the value", asks(SELL), hundred, True, {**bare, "observed": "1000"}),
        ("edge", "a SELL_SHORT a hair above", asks(SHORT, "10.01"), hundred, False, {**bare, "observed": "1001"}),
        ("refuse", "a SELL far below the market", asks(SELL, limit="0.01"), hundred, False, {"observed": "1050"}),
        ("refuse", "a SELL_SHORT far below", asks(SHORT, limit="0.01"), hundred, False, {"observed": "1050"}),
        ("refuse", "a stop BUY far below", asks(stop="0.01"), hundred, False, {"observed": "1050"}),
        ("refuse", "a stop SELL far below", asks(SELL, stop="0.01"), hundred, False, {"observed": "1050"}),
        ("edge", "a SELL by its limit above the market", asks(SELL, limit="100"), cheap, True, bare),
        ("edge", "a SELL a hair above", asks(SELL, limit="100.01"), cheap, False, {**bare, "observed": "1000.1"}),
        ("edge", "a stop limit SELL by its stop", asks(SELL, limit="1", stop="96"), cheap, False, {"observed": "1008"}),
        ("edge", "a stop limit SELL by its limit", asks(SELL, limit="96", stop="1"), cheap, False),
        ("edge", "a stop BUY with the buffer", asks(stop="96"), cheap, False, {"observed": "1008"}),
        (
            "edge",
            "a stop BUY at the value",
            asks(quantity="8", stop="100"),
            cheap,
            True,
            {"observed": "1000", "parameters": {**thousand, "buffer_percent": "25"}},
        ),
        ("edge", "a price as old as it may be", asks(SELL), old, True, bare),
        ("refuse", "its own price too high without a market's", asks(SELL, limit="96"), usd, False),
        ("refuse", "its own stop too high without a market's", asks(stop="96"), usd, False, {"observed": "1008"}),
        ("refuse", "of a REPLACE the market's price", cheaper, hundred, False, {"observed": "1050"}),
    )


def _currencies() -> Iterator[Case]:
    thousand, usd = {"value": "1000", "currency": "USD"}, knows(instrument=share())
    euros = {"instrument": share(quote_currency="EUR")}
    rate = Rate(rate=Decimal("1.25"), as_of=NOW)
    converted = knows(**euros, rates_of_exchange={("EUR", "USD"): rate})
    priced_too = knows(**euros, rates_of_exchange={("EUR", "USD"): rate}, price=priced("80"))
    stale = knows(instrument=share(), price=priced("1", 15_000.001))

    def converted_by_rate_of(age: timedelta) -> Facts:
        return knows(**euros, rates_of_exchange={("EUR", "USD"): replace(rate, as_of=NOW - age)})

    yield from cases_of(
        "NOTIONAL_MAX",
        thousand,
        ("edge", "another currency at the value", asks(limit="80"), converted, True, {"observed": "1000"}),
        ("refuse", "another currency", asks(limit="80.01"), converted, False, {"observed": "1000.125"}),
        ("edge", "a rate as old as it may be", asks(limit="80"), converted_by_rate_of(timedelta(days=5)), True),
        ("refuse", "a market's price in another currency", asks(SELL, limit="1"), priced_too, False),
    )
    backwards = knows(**euros, rates_of_exchange={("USD", "EUR"): rate})
    yield from missing_of(
        "NOTIONAL_MAX",
        thousand,
        ("no price", asks(), usd),
        ("no price beside a SELL's limit", asks(SELL, limit="95"), usd),
        ("no price beside a SELL_SHORT's limit", asks(SHORT, limit="0.01"), usd),
        ("no price beside a stop", asks(stop="95"), usd),
        ("a price too old by a microsecond", asks(), stale),
        ("a price too old beside a SELL's limit", asks(SELL, limit="1"), stale),
        ("a price of tomorrow", asks(), knows(instrument=share(), price=priced("1", -86_400_000))),
        ("no rate of exchange", asks(limit="1"), knows(**euros)),
        ("only the rate the other way", asks(limit="1"), backwards),
        ("a rate too old", asks(limit="1"), converted_by_rate_of(timedelta(days=5, microseconds=1))),
        ("no instrument", asks(limit="1"), knows()),
        ("neither price nor instrument", asks(SELL, limit="1"), knows()),
    )


def _collars() -> Iterator[Case]:
    ten = {"up_percent": "10", "down_percent": "5"}
    wide = {"parameters": {**ten, "passive_percent": "50"}}
    tight = {"parameters": {**ten, "spread_percent": "2"}}
    at, quoted = knows(price=priced("100")), knows(price=priced("100", bid=Decimal(99), ask=Decimal(101)))
    apart = knows(price=priced("100", bid=Decimal(99), ask=Decimal("101.1")))
    yield from cases_of(
        "PRICE_COLLAR",
        ten,
        ("pass", "a BUY at the market", asks(limit="100"), at, True, {"limit": "110", "observed": "100"}),
        ("edge", "a BUY at the upper end", asks(limit="110"), at, True),
        ("refuse", "a BUY above it", asks(limit="111"), at, False),
        ("edge", "a BUY a hair above it", asks(limit="110.000000000000000001"), at, False),
        ("pass", "a BUY far below", asks(limit="1"), at, True),
        ("edge", "a SELL at the lower end", asks(SELL, limit="95"), at, True, {"limit": "95"}),
        ("edge", "a SELL a hair below it", asks(SELL, limit="94.999999999999999999"), at, False),
        ("refuse", "a SELL_SHORT below it", asks(SHORT, limit="90"), at, False),
        ("pass", "a SELL far above", asks(SELL, limit="900"), at, True),
        ("edge", "a BUY at the end of the wide band", asks(limit="50"), at, True, wide),
        ("refuse", "a BUY below the wide band", asks(limit="49.99"), at, False, wide),
        ("edge", "a SELL at the end of the wide band", asks(SELL, limit="150"), at, True, wide),
        ("refuse", "a SELL above the wide band", asks(SELL, limit="150.01"), at, False, wide),
        ("edge", "a stop at the upper end", asks(stop="110"), at, True),
        ("edge", "a stop at the lower end", asks(SELL, stop="95"), at, True),
        ("refuse", "a BUY stop above", asks(stop="110.01"), at, False),
        ("refuse", "a BUY stop below", asks(stop="94.99"), at, False),
        ("refuse", "a SELL stop above", asks(SELL, stop="110.01"), at, False),
        ("edge", "a SELL stop in the wide band", asks(SELL, stop="50"), at, True, wide),
        ("refuse", "a stop limit by its stop", asks(limit="100", stop="94"), at, False, {"observed": "94"}),
        ("pass", "a market order by a price of now", asks(), at, True, {"limit": "15000", "observed": "0"}),
        ("edge", "a market order at the spread", asks(), quoted, True, {**tight, "limit": "2", "observed": "2"}),
        ("refuse", "a market order beyond the spread", asks(), apart, False, tight),
        ("pass", "a market order, nobody tells the spread", asks(), at, True, tight),
        ("edge", "a price as old as it may be", asks(limit="110"), knows(price=priced("100", 15_000)), True),
    )
    yield from missing_of(
        "PRICE_COLLAR",
        ten,
        ("no price", asks(limit="1"), knows()),
        ("a price too old by a microsecond", asks(limit="1"), knows(price=priced("1", 15_000.001))),
        ("no price for a market order", asks(), knows()),
    )


CASES: tuple[Case, ...] = (
    *_switches(),
    *_lists(),
    *TIME_CASES,
    *_sizes(),
    *_values(),
    *_currencies(),
    *_increments(),
    *_collars(),
    *_repeats(),
    *EXPOSURE_CASES,
)
