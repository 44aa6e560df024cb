"""Scripts for one account each: orders, replaces, cancels and prices, by number; the broker's plan leaves no choice."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from openbell import Limit, Market, Stop, StopLimit
from openbell.intents.orders import Side, Spec
from openbell_server.brokers.paper.profiles import PROFILES

SCRIPTS: Final = 200
PRICE: Final = "100"
LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# Each happens to every command of its kind, or to every order.
PLANS: Final[tuple[dict[str, int], ...]] = (
    *({},) * 12,
    {"refuse": 1},
    {"accept_then_hang": 1},
    {"accept_then_reset": 1},
    {"error_500_after_accept": 1},
    {"refused_but_placed": 1},
    {"fill_before_ack": 1},
    {"replace_refuse": 1},
    {"replace_then_reset": 1},
    {"error_500_after_replace": 1},
    {"cancel_refuse": 1},
    {"cancel_then_reset": 1},
    {"error_500_after_cancel": 1},
    {"duplicate_fills": 1},
    {"duplicate_fills": 1, "reorder_fills": 1},
    {"correct": 1, "late_ms": 1500},
    # The cancel is long answered by then: otherwise what is seen first would decide whether it succeeded.
    {"fill_after_cancel": 1, "late_ms": 1500},
)


@dataclass(frozen=True, slots=True)
class Order:
    side: Side
    spec: Spec


@dataclass(frozen=True, slots=True)
class Replace:
    """Of the script's last order."""

    spec: Spec


@dataclass(frozen=True, slots=True)
class Cancel:
    """Of the script's last order."""


@dataclass(frozen=True, slots=True)
class Price:
    """Of the script's symbol; each order may take `size` of it."""

    price: str
    size: str | None = None


Step = Order | Replace | Cancel | Price


@dataclass(frozen=True, slots=True)
class Script:
    number: int
    broker: str
    faults: dict[str, int]
    # Whether the broker refuses short sales and prices between ticks.
    is_strict: bool
    steps: tuple[Step, ...]

    @property
    def name(self) -> str:
        return f"script-{self.number}"

    @property
    def symbol(self) -> str:
        """Nobody else's: prices are for a symbol."""
        return f"G{LETTERS[self.number // 26]}{LETTERS[self.number % 26]}"

    @property
    def has_aftermath(self) -> bool:
        """Whether the broker changes something after its answer."""
        return "late_ms" in self.faults


def script_of(number: int) -> Script:
    """The same for the same number."""
    chance = random.Random(f"script {number}")
    scenes = [chance.choice(SCENES)(chance) for _ in range(chance.randint(2, 3))]
    return Script(
        number=number,
        broker=[*PROFILES][number % len(PROFILES)],
        faults=chance.choice(PLANS),
        is_strict=chance.random() < 0.15,
        steps=tuple(step for scene in scenes for step in scene),
    )


def _quantity(chance: random.Random) -> int:
    return chance.randint(5, 60)


def _market(chance: random.Random) -> list[Step]:
    # Above a thousand the paper broker fills in two executions.
    return [Order(chance.choice(("BUY", "SELL")), Market(chance.choice((_quantity(chance), 1500))))]


def _marketable_limit(chance: random.Random) -> list[Step]:
    side: Side = chance.choice(("BUY", "SELL"))
    return [Order(side, Limit(_quantity(chance), price="120" if side == "BUY" else "80"))]


def _resting(chance: random.Random) -> Order:
    return Order("BUY", Limit(_quantity(chance), price=str(chance.randint(80, 90))))


def _rests_and_is_canceled(chance: random.Random) -> list[Step]:
    return [_resting(chance), Cancel()]


def _is_canceled_twice(chance: random.Random) -> list[Step]:
    return [_resting(chance), Cancel(), Cancel()]


def _is_replaced_and_canceled(chance: random.Random) -> list[Step]:
    return [_resting(chance), Replace(Limit(_quantity(chance), price="91")), Cancel()]


def _is_replaced_and_fills(chance: random.Random) -> list[Step]:
    return [_resting(chance), Replace(Limit(_quantity(chance), price="101"))]


def _is_replaced_after_its_end(chance: random.Random) -> list[Step]:
    return [*_marketable_limit(chance), Replace(Limit(_quantity(chance), price="91"))]


def _fills_in_part(chance: random.Random) -> list[Step]:
    end: Step = chance.choice((Cancel(), Price("79"), Replace(Limit(80, price="101")), Replace(Limit(2, price="81"))))
    return [_resting(chance), Price("80", str(chance.randint(1, 4))), Price(PRICE), end, Price(PRICE)]


def _stop(chance: random.Random) -> list[Step]:
    end: Step = chance.choice((Price("94"), Cancel(), Replace(Stop(_quantity(chance), stop_price="101"))))
    return [Order("SELL", Stop(_quantity(chance), stop_price="95")), end, Price(PRICE)]


def _stop_limit(chance: random.Random) -> list[Step]:
    order = Order("BUY", StopLimit(_quantity(chance), stop_price="105", price="104"))
    return [order, Price("106"), chance.choice((Price("103"), Cancel())), Price(PRICE)]


def _now_or_never(chance: random.Random) -> list[Step]:
    spec = Limit(_quantity(chance), price=chance.choice(("90", "110")), time_in_force="IMMEDIATE_OR_CANCEL")
    if chance.random() < 0.5:
        spec = Limit(_quantity(chance), price="110", time_in_force="FILL_OR_KILL")
    return [Price(PRICE, str(chance.choice((3, 100)))), Order("BUY", spec), Price(PRICE)]


def _between_ticks(chance: random.Random) -> list[Step]:
    return [Order("BUY", Limit(_quantity(chance), price="90.005")), Cancel()]


SCENES: Final[tuple[Callable[[random.Random], list[Step]], ...]] = (
    _market,
    _marketable_limit,
    _rests_and_is_canceled,
    _is_canceled_twice,
    _is_replaced_and_canceled,
    _is_replaced_and_fills,
    _is_replaced_after_its_end,
    _fills_in_part,
    _stop,
    _stop_limit,
    _now_or_never,
    _between_ticks,
)
