"""Back-tests: what rules would have refused of the recorded commands."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, TypedDict

from openbell.connection import Connection
from openbell.models import Record, Window
from openbell.requests import Request, change, text_of

# The largest window has 200,000 commands, which take less.
PATIENCE_SECONDS: Final = 120.0


class BacktestOptions(TypedDict, total=False):
    """The window (default: the last seven days), and whether the rules replace those in force."""

    account_id: str | None
    since: datetime | None
    until: datetime | None
    replace: bool
    limit: int


class RuleTally(Record, frozen=True, kw_only=True):
    """What one rule would have refused, in numbers."""

    scope: str
    code: str
    refused: int
    would_refuse: int
    undecided: int
    symbol: str | None = None
    api_key_id: str | None = None


class BacktestExample(Record, frozen=True, kw_only=True):
    """A command that would have another verdict, with the result of every rule."""

    at: datetime
    symbol: str
    action_type: str
    was_refused: bool
    would_be_refused: bool
    findings: tuple[dict[str, Any], ...]
    action_id: str | None = None
    receipt_id: str | None = None


class Backtest(Record, frozen=True, kw_only=True):
    """What rules would have refused; for undecided commands the record lacks an input."""

    account_id: str
    window: Window
    intents: int
    judged: int
    refused: int
    undecided: int
    newly_refused: int
    newly_accepted: int
    by_rule: tuple[RuleTally, ...]
    examples: tuple[BacktestExample, ...]

    def __str__(self) -> str:
        undecided = f"; {self.undecided:,} undecided" if self.undecided else ""
        return f"would have refused {self.refused:,} of {self.judged:,}{undecided}"


def backtest_request(connection: Connection, rules: Sequence[Mapping[str, Any]], options: BacktestOptions) -> Request:
    body: dict[str, Any] = {
        "account_id": connection.account(options.get("account_id")),
        "rules": [dict(rule) for rule in rules],
        "replace": options.get("replace", True),
        "limit": options.get("limit", 20),
    }
    for name, moment in (("since", options.get("since")), ("until", options.get("until"))):
        if moment is not None:
            body[name] = text_of(name, moment)
    return replace(change("POST", "/v1/controls/backtest", body), patience=PATIENCE_SECONDS)
