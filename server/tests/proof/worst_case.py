"""Whether a limit of value holds: random orders, each valued again by fractions at the worst price it can trade at."""

import re
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls.backtest import RecordedCommand, Replay
from openbell_server.domain.controls.backtest_markets import ReceiptLine, recalled
from openbell_server.domain.controls.backtest_state import RecordedState
from openbell_server.domain.controls.evaluate import evaluate, needs
from openbell_server.domain.controls.facts import CommandFacts, Facts, Gate, Need, Rate
from openbell_server.domain.controls.findings import Finding, Verdict
from openbell_server.domain.controls.receipts import finding_facts
from openbell_server.domain.controls.rules import OnMissing, Rule
from openbell_server.domain.identifiers import IntentId
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderSide, TimeInForce
from proof.figures import Figures
from support.builders.control_commands import NOW, a_book, a_rule, asks, knows, priced, share
from support.builders.tenant import new_id

ORDERS = {"full": 100_000, "gate": 5_000}
SEED = 20261117
SHOWN_MAX = 20
# An order's numbers have at most 18 digits on either side of the point.
UNIT = Fraction(1, 10**18)
LARGEST = 10**18 - UNIT
ADVISED = re.compile(r"a quantity of at most ([0-9.]+)$")
PLAIN = ("limit", "stop")


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A random order, what is known of its market, and a rule; every number is an exact fraction.

    None: the order has no such price, or nobody knows the input.
    """

    side: OrderSide
    is_replace: bool
    quantity: Fraction
    limit: Fraction | None
    stop: Fraction | None
    reference: Fraction | None
    age_millis: Fraction
    age_max_millis: int
    multiplier: Fraction | None
    is_converted: bool
    rate: Fraction | None
    rate_age: timedelta
    buffer: Fraction
    environment: Environment
    on_missing: OnMissing | None

    @property
    def is_fresh(self) -> bool:
        return self.reference is not None and abs(self.age_millis) <= self.age_max_millis

    @property
    def is_rated(self) -> bool:
        return self.rate is not None and self.rate_age <= timedelta(days=5)

    @property
    def is_complete(self) -> bool:
        """Whether all is known that its worst value depends on."""
        bounded = self.side is OrderSide.BUY and self.limit is not None
        return (bounded or self.is_fresh) and self.multiplier is not None and (not self.is_converted or self.is_rated)

    @property
    def one(self) -> Fraction | None:
        """What a unit is worth at the worst price that is known; None if there is no price or no rate."""
        if self.side is OrderSide.BUY and self.limit is not None:
            price = self.limit
        else:
            known = [each for each in (self.limit, self.stop) if each is not None]
            if self.is_fresh:
                assert self.reference is not None
                known.append(self.reference)
            if not known:
                return None
            price = max(known) * (100 + self.buffer) / 100
        if self.multiplier is None:
            return price
        if not self.is_converted:
            return price * self.multiplier
        if self.rate is None or not self.is_rated:
            return None
        return price * self.multiplier * self.rate

    @property
    def allows_missing(self) -> bool:
        if self.on_missing is None:
            return self.environment is Environment.PAPER
        return self.on_missing is OnMissing.ALLOW

    def refuses(self, bound: Fraction) -> bool:
        if self.one is not None and self.one * self.quantity > bound:
            return True
        return not self.is_complete and not self.allows_missing

    def rule(self, bound: Fraction) -> Rule:
        parameters = {
            "value": text(bound),
            "currency": "USD",
            "buffer_percent": text(self.buffer),
            "ref_max_age_millis": self.age_max_millis,
        }
        return a_rule("NOTIONAL_MAX", parameters, on_missing=self.on_missing)

    def command(self, quantity: Fraction | None = None) -> CommandFacts:
        prices = {name: text(price) for name in PLAIN if (price := getattr(self, name)) is not None}
        asked = asks(self.side, text(quantity or self.quantity), **prices, environment=self.environment)
        if not self.is_replace:
            return asked
        # Another time in force: a REPLACE that no rule is to leave out.
        before = replace(asked.terms, time_in_force=TimeInForce.GOOD_TILL_CANCEL)
        return replace(asked, action_type=ActionType.REPLACE, before=before, filled_quantity=asked.terms.quantity / 2)

    def facts(self) -> Facts:
        known: dict[str, object] = {}
        if self.reference is not None:
            quoted = priced(text(self.reference))
            known["price"] = replace(quoted, as_of=NOW - timedelta(milliseconds=float(self.age_millis)))
        if self.multiplier is not None:
            currency = "EUR" if self.is_converted else "USD"
            known["instrument"] = share(multiplier=Decimal(text(self.multiplier)), quote_currency=currency)
        if self.rate is not None:
            rate = Rate(rate=Decimal(text(self.rate)), as_of=NOW - self.rate_age)
            known["rates_of_exchange"] = {("EUR", "USD"): rate}
        return knows(**known)


def text(number: Fraction) -> str:
    """A number of at most eighteen places, exactly."""
    whole, rest = divmod(int(number * 10**18), 10**18)
    return f"{whole}.{rest:018d}".rstrip("0").rstrip(".")


def drawn(chance: Random) -> Drawn:
    def number() -> Fraction:
        digits = chance.choice((1, 2, 4, 6, 18, 36))
        places = chance.choice((0, 2, 4, 18)) if digits < 18 else 18
        return chance.choice((Fraction(chance.randrange(1, 10**digits), 10**places),) * 20 + (UNIT, LARGEST))

    def near(price: Fraction) -> Fraction:
        """Another price, often close to this one, or this one."""
        steps = chance.choice((0, 1, -1, chance.randrange(-50, 51)))
        return min(LARGEST, max(UNIT, price + steps * chance.choice((UNIT, Fraction(1, 100), Fraction(1)))))

    kinds = chance.choice(((), ("limit",), ("stop",), PLAIN))
    market = number()
    own = {name: chance.choice((number, lambda: near(market)))() for name in kinds}
    age_max = chance.choice((1, 15_000, 3_600_000))
    ages = (0, age_max, age_max + Fraction(1, 1000), -age_max, -age_max - Fraction(1, 1000), 10 * age_max)
    is_known = chance.random() < 0.9
    is_converted = is_known and chance.random() < 0.5
    return Drawn(
        side=chance.choice(list(OrderSide)),
        is_replace=chance.random() < 0.25,
        quantity=number(),
        limit=own.get("limit"),
        stop=own.get("stop"),
        reference=market if chance.random() < 0.85 else None,
        age_millis=Fraction(chance.choice((0, 0, 0, *ages))),
        age_max_millis=age_max,
        multiplier=chance.choice((Fraction(1), Fraction(100), number())) if is_known else None,
        is_converted=is_converted,
        rate=number() if is_converted and chance.random() < 0.9 else None,
        rate_age=chance.choice((timedelta(),) * 6 + (timedelta(days=5), timedelta(days=5, microseconds=1))),
        buffer=chance.choice((Fraction(0), Fraction(5), Fraction(chance.randrange(10**6 + 1), 100), UNIT)),
        environment=chance.choice(list(Environment)),
        on_missing=chance.choice((None, None, *OnMissing)),
    )


def bound_of(order: Drawn, chance: Random) -> Fraction:
    """A limit at, just above or just below the order's value, or anywhere."""
    value = None if order.one is None else order.one * order.quantity
    if value is None or chance.random() < 0.25:
        return Fraction(chance.randrange(1, 10**36), 10**18)
    down = value // UNIT * UNIT
    share_of_it = value * chance.randrange(1, 200) / 100 // UNIT * UNIT
    return min(LARGEST, max(UNIT, chance.choice((down, down, down + UNIT, down - UNIT, share_of_it))))


@dataclass
class Tried:
    """What was compared, by kind, and what of it was wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: dict[str, list[str]] = field(default_factory=dict)

    def check(self, what: str, is_right: bool, about: object) -> None:
        self.counts[what] += 1
        if not is_right:
            self.wrong.setdefault(what, []).append(f"{what}: {about}")


def prove(figures: Figures) -> None:
    number = ORDERS[figures.size]
    tried, chance, refused = Tried(), Random(SEED), Counter[bool]()
    kinds: set[tuple[OrderSide, bool, bool, bool, bool]] = set()
    for _ in range(number):
        order = drawn(chance)
        bound = bound_of(order, chance)
        kinds.add((order.side, order.limit is None, order.stop is None, order.is_fresh, order.multiplier is not None))
        refused[compare(tried, order, bound)] += 1
    figures.exactly("orders valued", number, ORDERS[figures.size])
    figures.exactly("sides × types × reference fresh or not × instrument known or not", len(kinds), 3 * 4 * 2 * 2)
    figures.at_least("orders refused", refused[True], number // 5)
    figures.at_least("orders passed", refused[False], number // 5)
    for what, question in QUESTIONS.items():
        figures.at_least(f"{what}, compared", tried.counts[question], number // 20)
        figures.exactly(what, len(tried.wrong.get(question, ())), 0)
    for problem in [each for problems in tried.wrong.values() for each in problems][:SHOWN_MAX]:
        print(problem, file=sys.stderr)


QUESTIONS = {
    "undervalued": "value",
    "valued higher than at the worst price": "ceiling",
    "passed above the limit, or with an input missing that refuses": "passes",
    "refused although within the limit at the worst price": "refuses",
    "refusals whose would_pass quantity does not pass": "advice passes",
    "refusals whose would_pass quantity and one unit more passes": "advice is the most",
    "quantities named although a missing input refuses them": "no advice",
    "receipts without the prices that were used": "prices",
    "verdicts that differ with only the facts that the rule requests": "needs",
    "verdicts that differ at the door": "door",
    "back-tests that decide otherwise": "backtest",
}


def compare(tried: Tried, order: Drawn, bound: Fraction) -> bool:
    """Ask the product about one order; whether it refuses."""
    rule, command, facts = order.rule(bound), order.command(), order.facts()
    [line] = evaluate(a_book(rule), command, facts, Gate.ACCEPT)
    about = (order, text(bound), line)
    if line.observed is not None:
        value = order.one * order.quantity if order.one is not None else None
        tried.check("value", value is not None and Fraction(str(line.observed)) >= value, about)
        tried.check("ceiling", value is not None and Fraction(str(line.observed)) <= value, about)
        tried.check("prices", is_listed(order, line), about)
    expected = order.refuses(bound)
    tried.check("passes" if expected else "refuses", line.refuses is expected, about)
    if line.refuses:
        advice(tried, order, rule, line)
    asked_for = needs([rule], command)
    without = facts if Need.PRICE in asked_for else replace(facts, price=None)
    tried.check("needs", evaluate(a_book(rule), command, without, Gate.ACCEPT) == [line], about)
    tried.check("door", evaluate(a_book(rule), command, facts, Gate.DOOR) == [line], about)
    if not order.is_replace:
        tried.check("backtest", judged_again(order, rule, command, line), about)
    return line.refuses


def is_listed(order: Drawn, line: Finding) -> bool:
    """Whether the prices of the line are those of the order and its market, and give the observed value."""
    bounded = order.side is OrderSide.BUY and order.limit is not None
    expected = {"limit_price": order.limit, "stop_price": None if bounded else order.stop}
    expected["reference_price"] = order.reference if order.is_fresh and not bounded else None
    listed = {name: None if name not in line.inputs else Fraction(line.inputs[name]) for name in expected}
    factors = [Fraction(line.inputs.get(name, "1")) for name in ("multiplier", "exchange_rate")]
    value = order.quantity * Fraction(line.inputs["price"]) * factors[0] * factors[1]
    return listed == expected and value == Fraction(str(line.observed))


def advice(tried: Tried, order: Drawn, rule: Rule, line: Finding) -> None:
    """The quantity that would pass does, and one unit more does not: a whole one, below one the last place."""
    about = (order, line)
    named = ADVISED.search(str(line.would_pass))
    if not order.is_complete and not order.allows_missing:
        tried.check("no advice", named is None, about)
        return
    most = Fraction(0) if named is None else Fraction(named[1])
    if most:
        tried.check("advice passes", not _refuses(order, rule, most), about)
    tried.check("advice is the most", _refuses(order, rule, most + (1 if most >= 1 else UNIT)), about)


def _refuses(order: Drawn, rule: Rule, quantity: Fraction) -> bool:
    [line] = evaluate(a_book(rule), order.command(quantity), order.facts(), Gate.ACCEPT)
    return line.verdict is Verdict.REFUSED


def judged_again(order: Drawn, rule: Rule, command: CommandFacts, line: Finding) -> bool:
    """Whether a back-test with the same rule decides alike by the receipt alone, or knows that it cannot."""
    written = finding_facts(line)
    lines = [ReceiptLine(written["code"], written["limit"], written.get("inputs", {}))]
    replay = Replay(a_book(rule), RecordedState([], {}), since=NOW)
    entry = RecordedCommand(
        id=new_id(),
        asked=command,
        intent_id=IntentId(new_id()),
        seq=1,
        recorded_at=NOW,
        judged_at=NOW,
        recalled=recalled(command.symbol, lines),
    )
    replay.take([entry])
    is_undecided = line.missing is not None or order.multiplier is None
    found = (replay.tally.refused, replay.tally.undecided)
    return found == (int(line.refuses and not is_undecided), int(is_undecided))
