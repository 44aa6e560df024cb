"""What limits on open orders, positions and the value of a day say of commands."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

from openbell_server.domain.controls.facts import Facts, Holding, Rate
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.money.balances import FreeBuyingPower
from openbell_server.domain.money.losses import LossMark
from support.builders.control_commands import (
    BUY,
    NOW,
    SELL,
    SHORT,
    SUBJECT,
    Case,
    asks,
    cases_of,
    changes,
    holds,
    knows,
    missing_of,
    opened,
    priced,
    share,
)


def _exposure() -> Iterator[Case]:
    for per, key in (("account", "open_orders"), ("symbol", "open_orders_of_symbol"), ("side", "open_orders_of_side")):
        yield from cases_of(
            "OPEN_ORDERS_MAX",
            {"count": 20, "per": per.upper()},
            ("pass", f"none of the {per}", asks(), opened(), True, {"limit": 20, "observed": 1}),
            ("edge", f"the last of the {per}", asks(), opened(**{key: 19}), True, {"observed": 20}),
            ("refuse", f"one more of the {per}", asks(), opened(**{key: 20}), False, {"observed": 21}),
        )
    yield from missing_of("OPEN_ORDERS_MAX", {"count": 20}, ("not counted", asks(), knows()))
    hundred = {"quantity": "100"}
    more = changes(asks(BUY, "60"), quantity="50", filled="40")
    yield from cases_of(
        "POSITION_MAX",
        hundred,
        ("pass", "the first", asks(), holds("0"), True, {"limit": "100", "observed": "10"}),
        ("edge", "up to the limit", asks(), holds("60", buys="30"), True, {"observed": "100"}),
        ("edge", "a hair over it", asks(), holds("60", buys="30.1"), False, {"observed": "100.1"}),
        ("refuse", "too long", asks(BUY, "101"), holds("0"), False),
        ("edge", "sells that work do not make room", asks(), holds("100", sells="50"), False, {"observed": "110"}),
        ("edge", "short up to the limit", asks(SHORT), holds("-60", sells="30"), True, {"observed": "100"}),
        ("edge", "short a hair over it", asks(SELL), holds("-60.1", sells="30"), False),
        ("pass", "a SELL that only reduces", asks(SELL), holds("300"), True, {"observed": "-290"}),
        ("pass", "a BUY that only reduces", asks(), holds("-300"), True, {"observed": "-290"}),
        ("edge", "from too long to short at the limit", asks(SELL, "300"), holds("200"), True, {"observed": "100"}),
        ("refuse", "from long to too short", asks(SELL, "301"), holds("200"), False, {"observed": "101"}),
        ("edge", "of a REPLACE what may still fill", more, holds("80"), True, {"observed": "100"}),
        ("refuse", "of a REPLACE what may still fill, too long", more, holds("81"), False, {"observed": "101"}),
    )
    yield from missing_of(
        "POSITION_MAX", hundred, ("no position was ever told", asks(), holds(None)), ("not counted", asks(), knows())
    )


def _matches() -> Iterator[Case]:
    could, nearest = opened(matching_orders=2, matching_price=Decimal("100.5")), {"limit": 0, "observed": 2}
    yield from cases_of(
        "SELF_MATCH",
        {},
        ("pass", "nothing on the other side", asks(limit="100"), opened(), True, {"limit": 0, "observed": 0}),
        ("edge", "a limit that stays away", asks(limit="100"), opened(matching_price=Decimal("100.5")), True),
        ("refuse", "a limit that crosses", asks(limit="100.5"), could, False, nearest),
        ("refuse", "a SELL that crosses", asks(SELL, limit="100.5"), could, False, nearest),
        ("refuse", "a SELL_SHORT at the market", asks(SHORT), could, False, nearest),
        ("refuse", "an order there has no limit", asks(limit="1"), opened(matching_orders=1), False, {"observed": 1}),
        ("refuse", "a REPLACE that comes nearer", changes(asks(limit="101"), quantity="10", limit="99"), could, False),
    )
    yield from missing_of("SELF_MATCH", {}, ("not counted", asks(), knows()))


def _day_values() -> Iterator[Case]:
    def accepted(value: str, **known: Any) -> Facts:
        known = {"instrument": share(), "price": priced("100"), **known}
        return knows(day_values={(Scope.ACCOUNT, SUBJECT): Decimal(value)}, **known)

    terms = {"value": "1000", "currency": "USD", "timezone": "Asia/Tokyo"}
    more = changes(asks(limit="60"), quantity="10", limit="50")
    bigger = changes(asks(limit="50", quantity="12"), quantity="10", limit="50")
    yield from cases_of(
        "DAY_NOTIONAL_MAX",
        terms,
        ("pass", "the first of the day", asks(limit="10"), accepted("0"), True, {"limit": "1000", "observed": "100"}),
        ("edge", "up to the value of the day", asks(limit="10"), accepted("900"), True, {"observed": "1000"}),
        ("edge", "a hair above it", asks(limit="10"), accepted("900.01"), False, {"observed": "1000.01"}),
        ("refuse", "nothing is left", asks(limit="0.01"), accepted("1000"), False, {"observed": "1000.1"}),
        ("refuse", "a SELL at the market", asks(SELL, "1"), accepted("895.01"), False, {"observed": "1000.01"}),
        ("edge", "a REPLACE adds the difference", more, accepted("900"), True, {"observed": "1000"}),
        ("refuse", "a REPLACE with too high a price", more, accepted("900.5"), False, {"observed": "1000.5"}),
        ("edge", "a REPLACE of two more", bigger, accepted("900"), True, {"observed": "1000"}),
        ("refuse", "too much without a market's price", asks(SELL, limit="100"), accepted("1", price=None), False),
    )
    yield from missing_of(
        "DAY_NOTIONAL_MAX",
        terms,
        ("not counted", asks(limit="1"), knows(instrument=share())),
        ("no price of a day's order", asks(SELL, limit="1"), accepted("0", price=None)),
        ("no instrument of a day's order", asks(limit="1"), accepted("0", instrument=None)),
    )


def _gross() -> Iterator[Case]:
    def held(position: str | None, *others: Holding, buys: str = "0", sells: str = "0", **known: Any) -> Facts:
        market = {"instrument": share(), "price": priced("100"), "others": others, **known}
        return replace(holds(position, buys, sells), **market)

    def other(quantity: str, price: str | None = "50", **known: Any) -> Holding:
        reference = None if price is None else priced(price)
        instrument = share(symbol=Symbol("MSFT"), **known)
        return Holding(symbol=Symbol("MSFT"), quantity=Decimal(quantity), price=reference, instrument=instrument)

    terms = {"value": "10000", "currency": "USD", "buffer_percent": "0"}
    euros = other("10", "80", quote_currency="EUR")
    converted: dict[str, Any] = {"rates_of_exchange": {("EUR", "USD"): Rate(rate=Decimal("1.25"), as_of=NOW)}}
    bigger = changes(asks(quantity="20", limit="100"), quantity="10", limit="100", filled="10")
    yield from cases_of(
        "GROSS_MAX",
        terms,
        ("pass", "the first position", asks(limit="100"), held("0"), True, {"limit": "10000", "observed": "1000"}),
        ("edge", "with another symbol up to the limit", asks(limit="100"), held("0", other("180")), True),
        ("edge", "a hair above it", asks(limit="100"), held("0", other("180.1")), False, {"observed": "10005"}),
        (
            "refuse",
            "on top of what is held",
            asks(limit="100", quantity="41"),
            held("60"),
            False,
            {"observed": "10100"},
        ),
        ("edge", "on top of what works", asks(limit="100", quantity="20"), held("60", buys="20"), True),
        ("refuse", "a SELL_SHORT as well", asks(SHORT, "61"), held("-40"), False, {"observed": "10100"}),
        ("refuse", "the market is above the limit price", asks(limit="1", quantity="101"), held("0"), False),
        ("edge", "in another currency", asks(limit="90"), held("80", euros, **converted), True, {"observed": "10000"}),
        (
            "refuse",
            "too much in another currency",
            asks(limit="90", quantity="11"),
            held("80", euros, **converted),
            False,
        ),
        ("refuse", "too much without prices", asks(limit="1", quantity="101"), held("0", other("1", None)), False),
        ("edge", "of a REPLACE what may still fill", bigger, held("90"), True, {"observed": "10000"}),
    )
    yield from missing_of(
        "GROSS_MAX",
        terms,
        ("no position of the account", asks(limit="1"), held(None)),
        ("nobody counted the other symbols", asks(limit="1"), replace(held("0"), others=None)),
        ("no price of another symbol", asks(limit="1"), held("0", other("1", None))),
        ("no rate for another symbol", asks(limit="1"), held("0", euros)),
        ("no price of what is held", asks(limit="1"), held("0", price=None)),
    )


def _losses() -> Iterator[Case]:
    def lost(
        opening: str, highest: str | None = None, zone: str = "UTC", age: float = 0, facts: Facts | None = None
    ) -> Facts:
        mark = LossMark(
            day=NOW.date(),
            opening=Decimal(0),
            highest=Decimal(0),
            profit=Decimal(0),
            lost_from_opening=Decimal(opening),
            lost_from_highest=Decimal(highest or opening),
            as_of=NOW - timedelta(seconds=age),
        )
        return replace(facts or knows(), losses={("USD", zone): mark})

    terms = {"value": "1000", "currency": "USD"}
    halts, highest = {"on_breach": "HALTED"}, {"measured_from": "HIGHEST"}
    held = lost("1000.01", facts=holds("10"))
    yield from cases_of(
        "LOSS_MAX",
        terms,
        ("pass", "nothing lost", asks(), lost("0"), True, {"limit": "1000", "observed": "0"}),
        ("edge", "lost as much as it may", asks(), lost("1000", "5000"), True, {"observed": "1000"}),
        ("edge", "lost a cent more, sells what is held", asks(SELL), held, True, {"limit": "10", "observed": "10"}),
        ("refuse", "lost a cent more, sells more than is held", asks(SELL, "11"), held, False),
        ("refuse", "lost a cent more, buys", asks(), held, False),
        ("refuse", "lost a cent more, sells short", asks(SHORT, "1"), held, False, {"observed": "1000.01"}),
        ("refuse", "of the highest", asks(SHORT), lost("0", "1001"), False, {"parameters": terms | highest}),
        (
            "edge",
            "of the highest as much as it may",
            asks(),
            lost("0", "1000"),
            True,
            {"parameters": terms | highest},
        ),
        ("refuse", "halted", asks(SELL), lost("1000.01", facts=holds("10")), False, {"parameters": terms | halts}),
        ("edge", "measured as long ago as may be", asks(), lost("1000", age=30), True),
    )
    yield from missing_of(
        "LOSS_MAX",
        terms,
        ("never measured", asks(), knows()),
        ("measured too long ago", asks(), lost("0", age=30.001)),
        ("measured in another zone", asks(), lost("0", zone="Asia/Tokyo")),
    )


def _left(power: str | None, reserved: str = "0", position: str | None = "0", **known: Any) -> Facts:
    funds = None
    if power is not None:
        as_of = NOW - timedelta(seconds=known.pop("age", 0))
        amounts = {"buying_power": Decimal(power), "reserved": Decimal(reserved)}
        funds = FreeBuyingPower(currency=known.pop("paid_in", "USD"), as_of=as_of, **amounts)
    working = {name: known.pop(name) for name in ("buys", "sells") if name in known}
    market = {"instrument": share(), "price": priced("100"), "funds": funds, **known}
    return replace(holds(position, **working), **market)


def _funds() -> Iterator[Case]:
    terms = {"currency": "USD", "buffer_percent": "0"}
    bigger = changes(asks(quantity="20", limit="100"), quantity="10", limit="100", filled="10")
    yield from cases_of(
        "BUYING_POWER",
        terms,
        (
            "pass",
            "an order that costs less",
            asks(limit="100"),
            _left("5000"),
            True,
            {"limit": "5000", "observed": "1000"},
        ),
        ("edge", "an order that costs all of it", asks(limit="100"), _left("1000"), True, {"observed": "1000"}),
        ("edge", "a cent more than there is", asks(limit="100"), _left("999.99"), False, {"limit": "999.99"}),
        (
            "refuse",
            "with what was accepted since",
            asks(limit="100"),
            _left("2000", "1000.01"),
            False,
            {"limit": "999.99"},
        ),
        (
            "edge",
            "all but what must be left",
            asks(limit="100"),
            _left("1500"),
            True,
            {"parameters": terms | {"keep": "500"}},
        ),
        (
            "refuse",
            "of what must be left",
            asks(limit="100"),
            _left("1500"),
            False,
            {"parameters": terms | {"keep": "500.01"}},
        ),
        ("refuse", "an account that owes", asks(limit="1"), _left("-5"), False, {"limit": "-5", "observed": "10"}),
        ("edge", "a SELL beyond what is held costs the rest", asks(SELL, "30"), _left("1000", position="20"), True),
        ("refuse", "a SELL_SHORT", asks(SHORT, "11"), _left("1000"), False, {"observed": "1100"}),
        (
            "refuse",
            "a SELL of what another order sells already",
            asks(SELL, "11"),
            _left("0", position="20", sells="10"),
            False,
            {"observed": "100"},
        ),
        ("edge", "a REPLACE costs what it adds", bigger, _left("1000", position="10"), True, {"observed": "1000"}),
        ("refuse", "a REPLACE that adds too much", bigger, _left("999", position="10"), False, {"observed": "1000"}),
        ("refuse", "too much without a price", asks(SHORT, "11", limit="100"), _left("1000", price=None), False),
    )


def _missing_funds() -> Iterator[Case]:
    yield from missing_of(
        "BUYING_POWER",
        {"currency": "USD", "buffer_percent": "0"},
        ("no position to buy from", asks(limit="1"), _left("9000", position=None)),
        ("no buying power", asks(limit="1"), _left(None)),
        ("too old a buying power", asks(limit="1"), _left("9000", age=60.001)),
        ("a buying power in another currency", asks(limit="1"), _left("9000", paid_in="EUR")),
        ("no price of an order", asks(SHORT), _left("9000", price=None)),
    )


EXPOSURE_CASES: Final = [*_exposure(), *_matches(), *_day_values(), *_gross(), *_losses(), *_funds(), *_missing_funds()]
