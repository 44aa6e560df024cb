"""Commands on record, and rules to judge them again."""

from datetime import UTC, datetime, timedelta
from typing import Any

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls.backtest import RecordedCommand, Replay
from openbell_server.domain.controls.backtest_state import RecordedState
from openbell_server.domain.controls.catalogue import CATALOGUE
from openbell_server.domain.controls.facts import CommandFacts
from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.controls.rules import Rule, RuleBook
from openbell_server.domain.identifiers import IntentId, Symbol
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderSide, OrderType
from support.builders.tenant import new_id, some_terms

NOON = datetime(2026, 3, 6, 12, tzinfo=UTC)
AAPL = Symbol("AAPL")
A_CREATE = CommandFacts(
    action_type=ActionType.CREATE,
    symbol=AAPL,
    order_side=OrderSide.BUY,
    order_type=OrderType.LIMIT,
    terms=some_terms(10, "1.50"),
    environment=Environment.PAPER,
)


def a_rule(code: str, scope: Scope = Scope.ACCOUNT, mode: Mode = Mode.HARD, **parameters: Any) -> Rule:
    return Rule(
        code=code,
        scope=scope,
        subject="",
        symbol=AAPL if scope is Scope.SYMBOL else None,
        api_key_id="k" if scope is Scope.KEY else None,
        parameters=CATALOGUE[code].decode(parameters),
        mode=mode,
        on_missing=None,
        version=None,
    )


def a_replay(*rules: Rule, examples_max: int = 0) -> Replay:
    book = RuleBook(organization_epoch=1, account_epoch=1, rules=rules)
    return Replay(book, RecordedState([], {}), since=NOON, examples_max=examples_max)


def a_command(
    asked: CommandFacts = A_CREATE,
    *,
    intent_id: IntentId | None = None,
    seq: int | None = 1,
    seconds: float = 0,
) -> RecordedCommand:
    """A command that was accepted, unless it has no seq."""
    at = NOON + timedelta(seconds=seconds)
    of_intent = IntentId(new_id()) if intent_id is None and seq is not None else intent_id
    return RecordedCommand(id=new_id(), asked=asked, intent_id=of_intent, seq=seq, recorded_at=at, judged_at=at)
