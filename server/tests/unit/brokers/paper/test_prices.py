"""How paper prices move."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest

from openbell_exchange.matching import LOT, Quote, reference_price
from openbell_server.brokers.paper.prices import WALK_STEPS, InvalidPrices, StillPrices, Walk, parse_prices
from openbell_server.domain.identifiers import Symbol

NOW = datetime(2026, 11, 15, 15, tzinfo=UTC)
AAPL, MSFT = Symbol("AAPL"), Symbol("MSFT")


def walked(walk: Walk, symbol: Symbol, steps: range) -> list[Decimal]:
    quotes = [walk.quote(symbol, step) for step in steps]
    assert {quote.size for quote in quotes} == {LOT}
    return [quote.price for quote in quotes]


def test_without_a_setting_prices_stand_still() -> None:
    still = parse_prices(" ", NOW)
    assert isinstance(still, StillPrices)
    assert (still.quote(AAPL, still.step_at(NOW)), still.moves(0, [AAPL])) == (None, {})


def test_a_walk_is_the_same_for_the_same_seed_symbol_and_step_and_another_for_any_other() -> None:
    walk = Walk(seed=7, step_ms=500, bps=5)
    steps = range(100, 300)
    path = walked(walk, AAPL, steps)
    assert path == list(reversed([walked(Walk(7, 250, 5), AAPL, range(s, s + 1))[0] for s in reversed(steps)]))
    assert path != walked(Walk(8, 500, 5), AAPL, steps)
    assert path != walked(walk, MSFT, steps)


def test_a_walk_moves_by_small_steps_from_the_reference_price_and_never_jumps_in_a_million_steps() -> None:
    walk = Walk(seed=7, step_ms=500, bps=20)
    path = walked(walk, AAPL, range(3 * WALK_STEPS))
    assert path[0] == reference_price(AAPL)
    assert len(set(path)) > 100
    changes = [abs(later / earlier - 1) for earlier, later in pairwise(path)]
    assert max(changes) < Decimal("0.0021")
    assert walked(walk, AAPL, range(1_000_000, 1_000_010)) == walked(
        walk, AAPL, range(1_000_000 % (2 * WALK_STEPS - 2), 1_000_000 % (2 * WALK_STEPS - 2) + 10)
    )


def test_a_walk_counts_its_steps_by_time_and_moves_every_symbol_in_each() -> None:
    walk = Walk(seed=7, step_ms=500, bps=5)
    step = walk.step_at(NOW)
    assert walk.step_at(NOW + timedelta(seconds=3)) == step + 6
    assert walk.moves(step, [AAPL, MSFT]) == {symbol: walk.quote(symbol, step) for symbol in (AAPL, MSFT)}


@pytest.mark.parametrize(
    "times",
    [("0", "1.5", "1.5", "3"), tuple(f"2026-01-05T09:30:{second}+00:00" for second in ("10", "11.5", "11.5", "13"))],
)
@pytest.mark.parametrize("header", ["time,symbol,price,size\n", ""])
def test_a_file_is_replayed_from_the_start_of_the_process(tmp_path: Path, times: tuple[str, ...], header: str) -> None:
    file = tmp_path / "prices.csv"
    rows = zip(times, ("AAPL,10.5,300", "msft,20", "AAPL,11", "AAPL,12.25,5"), strict=True)
    file.write_text(header + "".join(f"{moment},{rest}\n" for moment, rest in rows))
    replay = parse_prices(f"csv:{file}", NOW)
    steps = [replay.step_at(NOW + timedelta(seconds=seconds)) for seconds in (0, 1, 2, 99)]
    assert steps == [0, 1, 3, 4]
    assert [replay.quote(AAPL, step) for step in steps] == [
        None,
        Quote(Decimal("10.5"), Decimal(300)),
        Quote(Decimal(11), LOT),
        # The last one stays, with no end of it.
        Quote(Decimal("12.25")),
    ]
    assert replay.quote(MSFT, 1) is None
    moves = [replay.moves(step, [AAPL]) for step in (1, 2, 3, 4)]
    assert moves == [{AAPL: replay.quote(AAPL, 1)}, {}, {AAPL: replay.quote(AAPL, 3)}, {AAPL: replay.quote(AAPL, 4)}]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("wander", "neither empty nor"),
        ("walk:speed=1", "no 'speed'"),
        ("walk:bps=0", "from 1 to 1000"),
        ("walk:step_ms=5", "from 10 to 60000"),
        ("walk:seed", "whole number"),
        ("walk:bps=٣", "whole number"),
        ("csv:", "cannot be read"),
        ("csv:no/such/file.csv", "cannot be read"),
    ],
)
def test_prices_that_cannot_be_meant_are_refused_in_a_sentence(text: str, says: str) -> None:
    with pytest.raises(InvalidPrices, match="OPENBELL_PAPER_PRICES cannot be used") as refused:
        parse_prices(text, NOW)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "from 1 to"),
        ("time,symbol,price\n", "from 1 to"),
        ("0,AAPL\n", "row 1"),
        ("time,symbol,price\n0,AAPL,-1\n", "row 2"),
        ("0,AAPL,1e5\n", "price"),
        ("0,AAPL,1,0\n", "size"),
        ("0,not a symbol,1\n", "no symbol"),
        ("0,AAPL,1,1,1\n", "row 1"),
        ("-1,AAPL,1\n", "row 1"),
        ("2026-01-05T09:30:00,AAPL,1\n", "zone"),
        ("1,AAPL,1\n0,AAPL,1\n", "order of time"),
        ("1,AAPL,1\n2026-01-05T09:30:00Z,AAPL,1\n", "either every row"),
        ("2026-01-05T09:30:00Z,AAPL,1\n1,AAPL,1\n", "either every row"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_with_its_row(tmp_path: Path, content: str, says: str) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(content)
    with pytest.raises(InvalidPrices, match=says):
        parse_prices(f"csv:{file}", NOW)
