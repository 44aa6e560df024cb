"""Makes commands, what is known of them, and rules that judge them; a Case is one command before one rule."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from urllib.parse import unquote

from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls.catalogue import CATALOGUE
from openbell_server.domain.controls.evaluate import evaluate
from openbell_server.domain.controls.facts import CommandFacts, Exposure, Facts, Gate, ReferencePrice
from openbell_server.domain.controls.findings import Comparison, Finding, Mode, Scope
from openbell_server.domain.controls.rules import OnMissing, Rule, RuleBook
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.markets.instruments import Instrument
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, Terms, TimeInForce

NOW = datetime(2026, 3, 6, 15, 30, tzinfo=UTC)
SUBJECT = "account-1"
KINDS = {
    (False, False): OrderType.MARKET,
    (True, False): OrderType.LIMIT,
    (False, True): OrderType.STOP,
    (True, True): OrderType.STOP_LIMIT,
}
# One class of shares; in a path, %2F is a slash.
SPELLINGS = ("BRK.B", "BRK/B", "BRK-B", "brk.b", "BRK%2FB")
BUY, SELL, SHORT = OrderSide.BUY, OrderSide.SELL, OrderSide.SELL_SHORT


@dataclass(frozen=True, kw_only=True)
class Case:
    """One command before one rule. What is expected is of a hard rule on a live account."""

    code: str
    # pass, refuse, edge (which may do either) or missing.
    what: str
    name: str
    parameters: Mapping[str, Any]
    asked: CommandFacts
    facts: Facts
    passes: bool
    # What the line of the receipt is called, if not by the rule's code.
    found_as: str | None = None
    # Whether a missing input refuses on paper too, whatever on_missing says.
    denies_always: bool = False
    limit: object = field(default=...)
    observed: object = field(default=...)


def terms(quantity: str, limit: str | None, stop: str | None) -> Terms:
    return Terms(
        quantity=Decimal(quantity),
        limit_price=None if limit is None else Decimal(limit),
        stop_price=None if stop is None else Decimal(stop),
        time_in_force=TimeInForce.DAY,
    )


def asks(
    side: OrderSide = BUY, quantity: str = "10", limit: str | None = None, stop: str | None = None, **other: Any
) -> CommandFacts:
    """A CREATE of AAPL on a live account."""
    return CommandFacts(
        **{
            "action_type": ActionType.CREATE,
            "symbol": Symbol("AAPL"),
            "order_side": side,
            "order_type": KINDS[limit is not None, stop is not None],
            "terms": terms(quantity, limit, stop),
            "environment": Environment.LIVE,
            **other,
        }
    )


def changes(asked: CommandFacts, *, quantity: str, limit: str | None = None, filled: str = "0") -> CommandFacts:
    """A REPLACE that would make the asked order of one with this quantity and limit."""
    before = replace(asked.terms, quantity=Decimal(quantity), limit_price=None if limit is None else Decimal(limit))
    return replace(asked, action_type=ActionType.REPLACE, before=before, filled_quantity=Decimal(filled))


def knows(**known: Any) -> Facts:
    return Facts(**{"now": NOW, **known})


def share(**known: Any) -> Instrument:
    return Instrument(
        **{
            "symbol": Symbol("AAPL"),
            "asset_class": "us_equity",
            "quote_currency": "USD",
            "tradable": True,
            "fractional": True,
            **known,
        }
    )


def priced(price: str = "100", age_millis: float = 0, **known: Any) -> ReferencePrice:
    as_of = NOW - timedelta(milliseconds=age_millis)
    return ReferencePrice(price=Decimal(price), as_of=as_of, source="quote", **known)


def holds(position: str | None, buys: str = "0", sells: str = "0") -> Facts:
    as_of = None if position is None else NOW
    exposure = Exposure(
        position=None if position is None else Decimal(position),
        position_as_of=as_of,
        working_buys=Decimal(buys),
        working_sells=Decimal(sells),
    )
    return knows(exposure=exposure)


def opened(**counted: Any) -> Facts:
    return knows(exposure=Exposure(position=None, position_as_of=None, **counted))


def ago(*millis: float) -> Sequence[datetime]:
    return [NOW - timedelta(milliseconds=each) for each in millis]


def judged(*millis: float) -> Facts:
    return knows(judged={(Scope.ACCOUNT, SUBJECT): ago(*millis)})


def a_rule(code: str, parameters: Mapping[str, Any], **other: Any) -> Rule:
    return Rule(
        **{
            "code": code,
            "scope": Scope.ACCOUNT,
            "subject": SUBJECT,
            "symbol": None,
            "api_key_id": None,
            "parameters": CATALOGUE[code].decode(parameters),
            "mode": Mode.HARD,
            "on_missing": None,
            "version": 3,
            **other,
        }
    )


def a_book(*rules: Rule, watched: bool = False) -> RuleBook:
    return RuleBook(organization_epoch=1, account_epoch=2, rules=rules, is_watched_only=watched)


def judge(
    case: Case,
    *,
    environment: Environment = Environment.LIVE,
    on_missing: OnMissing | None = None,
    mode: Mode = Mode.HARD,
    watched: bool = False,
) -> list[Finding]:
    """The lines that the case's rule writes, alone in its book."""
    rule = a_rule(case.code, case.parameters, on_missing=on_missing, mode=mode)
    asked = replace(case.asked, environment=environment)
    return evaluate(a_book(rule, watched=watched), asked, case.facts, Gate.ACCEPT)


def spelled_around(broker: BrokerDefinition) -> tuple[int, list[str]]:
    """How many ways were tried to name a symbol to a control and otherwise to a command, and those that got around it.

    Where a broker takes two spellings for two symbols, they are two.
    """
    tried, around = 0, []
    for listed in SPELLINGS:
        for asked in SPELLINGS:
            symbol, other = (broker.canonical_symbol(unquote(text)) for text in (asked, listed))
            assert symbol is not None
            if symbol != other:
                continue
            deny, allow = (
                CATALOGUE["RESTRICTED"].decode({"list": kind, "symbols": [listed]}).respelled(broker.canonical_symbol)
                for kind in ("DENY", "ALLOW_ONLY")
            )
            denied = replace(a_rule("RESTRICTED", {"list": "DENY", "symbols": []}), parameters=deny)
            disabled = a_rule("SYMBOL_DISABLED", {"manually_disabled": True}, scope=Scope.SYMBOL, symbol=other)
            for rule, passes in ((denied, False), (replace(denied, parameters=allow), True), (disabled, False)):
                tried += 1
                lines = evaluate(a_book(rule), asks(symbol=symbol), knows(), Gate.ACCEPT)
                if [line.refuses for line in lines] != [not passes]:
                    around.append(f"{broker.name}: {rule.code} of {listed} does not know {asked}")
    return tried, around


def cases_of(code: str, parameters: Mapping[str, Any], *rows: tuple[Any, ...], **common: Any) -> Iterator[Case]:
    """Rows of: what, name, command, facts, whether it passes, and what else is expected."""
    for what, name, asked, facts, passes, *rest in rows:
        expected = {"parameters": parameters, **common, **(rest[0] if rest else {})}
        yield Case(code=code, what=what, name=name, asked=asked, facts=facts, passes=passes, **expected)


def missing_of(
    code: str, parameters: Mapping[str, Any], *rows: tuple[str, CommandFacts, Facts], **common: Any
) -> Iterator[Case]:
    for name, asked, facts in rows:
        yield from cases_of(code, parameters, ("missing", name, asked, facts, False), **common)


def repeated(line: Finding) -> bool:
    """Whether the observed value of a line passes its limit, by nothing but the line."""
    limit, observed = line.limit, line.observed
    match line.comparison:
        case Comparison.EQUALS:
            return observed == limit
        case Comparison.ONE_OF | Comparison.NONE_OF:
            assert isinstance(limit, list)
            return (observed in limit) is (line.comparison is Comparison.ONE_OF)
        case Comparison.WITHIN:
            assert isinstance(limit, list)
            return any(pair[0] <= str(observed) < pair[1] for pair in limit)
    assert isinstance(limit, str | int)
    assert isinstance(observed, str | int)
    bound, value = Fraction(limit), Fraction(observed)
    match line.comparison:
        case Comparison.AT_MOST:
            return value <= bound
        case Comparison.AT_LEAST:
            return value >= bound
        case Comparison.MULTIPLE_OF:
            return value % bound == 0
    raise AssertionError(f"nobody repeats {line.comparison} by a number")
