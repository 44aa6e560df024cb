"""How paper prices move: constant, by a seeded random walk, or from a file that is read once."""

import csv
import hashlib
from array import array
from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final, Protocol

from openbell_exchange.matching import LOT, Quote, reference_price
from openbell_server.domain.errors import InvalidCommand, OperatorError
from openbell_server.domain.identifiers import Symbol, canonical_symbol
from openbell_server.domain.orders.order_terms import exact_decimal

# Only this many symbols with working orders move at a time.
SYMBOLS_MAX: Final = 500
# A walk has this many steps, then runs backwards.
WALK_STEPS: Final = 4096
ROWS_MAX: Final = 100_000
_WALK_DEFAULTS: Final = {"seed": 0, "step_ms": 500, "bps": 5}
_WALK_BOUNDS: Final = {"seed": (0, 2**63), "step_ms": (10, 60_000), "bps": (1, 1_000)}
_IDLE_SECONDS: Final = 1.0
_REPLAY_SECONDS: Final = 0.1


class InvalidPrices(OperatorError):
    """OPENBELL_PAPER_PRICES is invalid."""


class PriceFeed(Protocol):
    """A source of quotes in steps that are numbered by time."""

    @property
    def catch_up(self) -> int:
        """How many of the newest steps are applied after a pause."""

    @property
    def look_seconds(self) -> float: ...

    @property
    def symbols(self) -> Collection[Symbol]:
        """Symbols that are listed because the feed has prices of them."""

    def step_at(self, now: datetime) -> int: ...

    def quote(self, symbol: Symbol, step: int) -> Quote | None:
        """The quote after a step; None if this feed does not cover the symbol."""

    def moves(self, step: int, symbols: Collection[Symbol]) -> dict[Symbol, Quote]: ...


class StillPrices:
    catch_up = 0
    look_seconds = _IDLE_SECONDS
    symbols: Collection[Symbol] = ()

    def step_at(self, now: datetime) -> int:
        return 0

    def quote(self, symbol: Symbol, step: int) -> Quote | None:
        return None

    def moves(self, step: int, symbols: Collection[Symbol]) -> dict[Symbol, Quote]:
        return {}


@dataclass(frozen=True, slots=True)
class Walk:
    """A random walk from the reference price that depends only on seed, symbol and step."""

    seed: int
    step_ms: int
    bps: int
    catch_up: int = 100

    @property
    def symbols(self) -> Collection[Symbol]:
        return ()

    @property
    def look_seconds(self) -> float:
        return min(_IDLE_SECONDS, self.step_ms / 1000)

    def step_at(self, now: datetime) -> int:
        """Steps count from 1970, so that a restart continues the same walk."""
        return int(now.timestamp() * 1000) // self.step_ms

    def quote(self, symbol: Symbol, step: int) -> Quote:
        there = WALK_STEPS - 1
        place = step % (2 * there)
        cents = _path(self.seed, self.bps, symbol)[min(place, 2 * there - place)]
        return Quote(Decimal(cents).scaleb(-2), LOT)

    def moves(self, step: int, symbols: Collection[Symbol]) -> dict[Symbol, Quote]:
        return {symbol: self.quote(symbol, step) for symbol in symbols}


@lru_cache(maxsize=SYMBOLS_MAX)
def _path(seed: int, bps: int, symbol: Symbol) -> "array[int]":
    """The prices of a walk in cents; each step changes by at most bps basis points."""
    fine = int(reference_price(symbol).scaleb(8))
    path = array("q")
    for step in range(WALK_STEPS):
        path.append(max(1, round(fine / 10**6)))
        digest = hashlib.sha256(f"{seed}\0{symbol}\0{step}".encode()).digest()
        fine += fine * (int.from_bytes(digest[:8]) % (2 * bps + 1) - bps) // 10_000
    return path


@dataclass(frozen=True, slots=True)
class _Row:
    seconds: float
    symbol: Symbol
    quote: Quote


@dataclass(slots=True)
class Replay:
    """Prices of a file, timed from the start of the process; the last price of a symbol stays, with unlimited size."""

    rows: list[_Row]
    started_at: datetime
    catch_up: int = ROWS_MAX
    look_seconds: float = _REPLAY_SECONDS
    # Row numbers by symbol, from 1.
    _places: dict[Symbol, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows, start=1):
            self._places.setdefault(row.symbol, []).append(number)
        for numbers in self._places.values():
            last = self.rows[numbers[-1] - 1]
            self.rows[numbers[-1] - 1] = _Row(last.seconds, last.symbol, Quote(last.quote.price))

    @property
    def symbols(self) -> Collection[Symbol]:
        return self._places.keys()

    def step_at(self, now: datetime) -> int:
        return bisect_left(self.rows, (now - self.started_at).total_seconds(), key=lambda row: row.seconds)

    def quote(self, symbol: Symbol, step: int) -> Quote | None:
        numbers = self._places.get(symbol, [])
        count = bisect_left(numbers, step + 1)
        return self.rows[numbers[count - 1] - 1].quote if count else None

    def moves(self, step: int, symbols: Collection[Symbol]) -> dict[Symbol, Quote]:
        row = self.rows[step - 1]
        return {row.symbol: row.quote} if row.symbol in symbols else {}


def parse_prices(text: str, now: datetime) -> PriceFeed:
    """Parse the setting: empty, `walk:seed=7,step_ms=500,bps=5`, or `csv:` and the path of a file."""
    kind, _, rest = text.strip().partition(":")
    if not kind and not rest:
        return StillPrices()
    if kind == "walk":
        return Walk(**_walk_numbers(rest))
    if kind == "csv":
        return Replay(_read_rows(Path(rest)), now)
    raise _invalid(f"{text!r} is neither empty nor walk:… nor csv:…")


def _walk_numbers(text: str) -> dict[str, int]:
    numbers = dict(_WALK_DEFAULTS)
    for item in filter(None, (item.strip() for item in text.split(","))):
        name, _, value = (part.strip() for part in item.partition("="))
        if name not in _WALK_BOUNDS:
            raise _invalid(f"a walk has no {name!r}; it has {', '.join(_WALK_BOUNDS)}")
        lowest, highest = _WALK_BOUNDS[name]
        if not (value.isascii() and value.isdigit() and len(value) < 20 and lowest <= int(value) <= highest):
            raise _invalid(f"{item}: {name} must be a whole number from {lowest} to {highest}")
        numbers[name] = int(value)
    return numbers


def _read_rows(path: Path) -> list[_Row]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = [line for line in islice(csv.reader(file), ROWS_MAX + 2) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as trouble:
        raise _invalid(f"{path} cannot be read: {trouble}") from trouble
    first = 1
    if lines and lines[0][0].strip() == "time":
        first, lines = 2, lines[1:]
    if not 0 < len(lines) <= ROWS_MAX:
        raise _invalid(f"{path} must have from 1 to {ROWS_MAX} rows")
    rows: list[_Row] = []
    start: datetime | None = None
    for number, line in enumerate(lines, start=first):
        try:
            moment = _moment(line[0].strip())
            if not rows and isinstance(moment, datetime):
                start = moment
            row = _row(_seconds(moment, start, rows), *(cell.strip() for cell in line[1:]))
        except (ValueError, TypeError, InvalidCommand) as trouble:
            raise _invalid(f"row {number} of {path} is not time,symbol,price[,size]: {trouble}") from trouble
        rows.append(row)
    return rows


def _moment(text: str) -> float | datetime:
    """Seconds from the start, or a timestamp with its time zone."""
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a timestamp needs its zone")
    return moment.astimezone(UTC)


def _seconds(moment: float | datetime, start: datetime | None, rows: list[_Row]) -> float:
    """Timestamps become seconds since the first row."""
    if isinstance(moment, datetime) != (start is not None):
        raise ValueError("either every row has a timestamp or none")
    seconds = (moment - start).total_seconds() if isinstance(moment, datetime) and start else moment
    assert isinstance(seconds, float)
    if rows and seconds < rows[-1].seconds:
        raise ValueError("rows must be in the order of time")
    return seconds


def _row(seconds: float, symbol_text: str, price: str, size: str = "") -> _Row:
    symbol = canonical_symbol(symbol_text)
    if symbol is None:
        raise ValueError(f"{symbol_text!r} is no symbol")
    return _Row(seconds, symbol, Quote(exact_decimal(price, "price"), exact_decimal(size, "size") if size else LOT))


def _invalid(why: str) -> InvalidPrices:
    return InvalidPrices(f"OPENBELL_PAPER_PRICES cannot be used: {why}.")
