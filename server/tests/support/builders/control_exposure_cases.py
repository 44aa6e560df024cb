"""What limits on open orders and positions say of commands."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from support.builders.control_commands import (
    BUY,
    SELL,
    SHORT,
    Case,
    asks,
    cases_of,
    changes,
    holds,
    knows,
    missing_of,
    opened,
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


EXPOSURE_CASES: Final = [*_exposure(), *_matches()]
