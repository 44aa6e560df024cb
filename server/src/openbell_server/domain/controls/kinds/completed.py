"""Rules as they are evaluated for one account: with its time zone, and with the operators' changes to calendars."""

from collections.abc import Sequence
from dataclasses import replace

from openbell_server.domain.controls.kinds.day_values import DayValue
from openbell_server.domain.controls.kinds.losses import LossLimit
from openbell_server.domain.controls.kinds.times import MarketSession
from openbell_server.domain.controls.rules import Rule
from openbell_server.domain.markets.calendars import SessionChange
from openbell_server.domain.markets.trading_windows import TradingWindow


def completed(rule: Rule, account_zone: str, changes: Sequence[SessionChange]) -> Rule:
    """Add the account's time zone to parameters without one, and operators' changes to a calendar."""
    parameters = rule.parameters
    if isinstance(parameters, TradingWindow | DayValue | LossLimit) and parameters.timezone is None:
        return replace(rule, parameters=replace(parameters, timezone=account_zone))
    if isinstance(parameters, MarketSession):
        mine = tuple(change for change in changes if change.calendar == parameters.calendar)
        return replace(rule, parameters=replace(parameters, changes=mine))
    return rule
