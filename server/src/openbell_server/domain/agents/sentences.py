"""A worst case in plain sentences."""

from collections.abc import Sequence

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.agents.worst_case import AccountCase, Amount, DayAmount, LossStop, WorstCase
from openbell_server.domain.controls.kinds.numbers import shown
from openbell_server.domain.controls.kinds.times import utc_text
from openbell_server.domain.orders.order_terms import OrderSide


def sentences(case: WorstCase) -> list[str]:
    """What the key can still do at worst, one fact each; what nothing limits is called unlimited."""
    if case.ended_by is not None:
        return [f"The key is {case.ended_by}: it can do nothing."]
    if not case.can_trade:
        return [
            f"{_life(case)} It cannot place, replace or cancel orders, because it lacks intent:edit.",
            _others(case),
        ]
    found = [_life(case)]
    if not case.accounts:
        found.append("It can trade in no account, because there is none that is open to it.")
    for account_ids, of_account in case.accounts:
        found += _of_accounts(case, [str(each) for each in account_ids], of_account)
    if len(case.accounts) > 1 or any(len(ids) > 1 for ids, _ in case.accounts):
        found += [f"In all accounts together, {_day(day)}" for day in case.days] or [
            "In all accounts together: the value of a day is unlimited."
        ]
    if case.has_more_accounts:
        found.append("There are more accounts that it can trade in than this list shows; limit it with account_ids.")
    return [*found, _others(case)]


def _life(case: WorstCase) -> str:
    environment = case.key.environment
    money = "real money: its accounts are live" if environment is Environment.LIVE else "no real money: paper accounts"
    accounts = "" if case.key.account_ids else " It can use every account of the environment, also later ones."
    until = "never expires" if case.key.expires_at is None else f"expires at {utc_text(case.key.expires_at)}"
    return f"The key trades {money}; it {until}.{accounts}"


def _others(case: WorstCase) -> str:
    own = case.key.own_orders_only
    orders = "It cannot cancel or replace orders of others." if own else "It can cancel and replace orders of others."
    loosening = "It can loosen limits of accounts." if case.can_loosen else "It cannot loosen any limit."
    return f"{orders} {loosening}"


def _of_accounts(case: WorstCase, account_ids: Sequence[str], of: AccountCase) -> list[str]:
    where = f"In account {account_ids[0]}" if len(account_ids) == 1 else f"In each of {', '.join(account_ids)}"
    found = [f"{where} it can {_actions(of)} {_symbols(of)}."]
    if of.stopped_by is not None:
        found.append(f"At present it cannot raise risk there, because of {of.stopped_by}. The rest holds afterwards.")
    found.append(_order_value(of.order_values, of.order_values_with_price))
    found += [f"In value, {_day(day)}" for day in of.day_values] or ["The value of its orders of a day is unlimited."]
    if of.quantity is not None:
        found.append(f"One order is of at most {shown(of.quantity)} units.")
    if of.position is not None:
        found.append(f"A position becomes at most {shown(of.position)} units, long or short.")
    found.append(
        "The number of orders a minute is unlimited by rules."
        if of.orders_per_minute is None
        else f"It sends at most {of.orders_per_minute} orders and replacements a minute; cancels, and replacements that"
        " only reduce risk, are bounded by the rate limit of the account."
    )
    found.append(
        "The number of open orders is unlimited."
        if of.open_orders is None
        else f"It places no order while the account has {of.open_orders} open."
    )
    found += [_loss(stop) for stop in of.losses] or ["No loss stops it."]
    return found


def _actions(of: AccountCase) -> str:
    names = {OrderSide.BUY: "buy", OrderSide.SELL: "sell", OrderSide.SELL_SHORT: "sell short"}
    able = [names[side] for side in OrderSide if str(side) in of.sides]
    text = ", ".join(able) if able else "neither buy nor sell"
    return f"{text} (no more than is held)" if of.sells_only_what_is_held and OrderSide.SELL in of.sides else text


def _symbols(of: AccountCase) -> str:
    if of.symbols is not None:
        return f"only {', '.join(of.symbols)}" if of.symbols else "no symbol"
    return f"every symbol but {', '.join(of.denied_symbols)}" if of.denied_symbols else "every symbol"


def _order_value(firm: Sequence[Amount], with_price: Sequence[Amount]) -> str:
    if firm:
        amounts = " and ".join(f"{shown(each.value)} {each.currency}" for each in firm)
        return f"One order is worth at most {amounts}, at its worst price."
    if with_price:
        amounts = " and ".join(f"{shown(each.value)} {each.currency}" for each in with_price)
        return f"One order is worth at most {amounts} while a price is known, and unlimited without one."
    return "The value of one order is unlimited."


def _day(day: DayAmount) -> str:
    text = (
        f"orders of at most {shown(day.left_today)} {day.currency} are still accepted on {day.today} ({day.timezone};"
        f" {shown(day.accepted_today)} {day.currency} were), and of at most {shown(day.per_day)} {day.currency} on each"
        " later day"
    )
    if day.left_in_all is None:
        return f"{text}, without end."
    return f"{text}, of which there are {day.later_days}: {shown(day.left_in_all)} {day.currency} in all."


def _loss(stop: LossStop) -> str:
    so_far = "not measured now" if stop.lost_today is None else f"{shown(stop.lost_today)} {stop.currency} so far"
    after = "it may only reduce" if stop.on_breach == "REDUCE_ONLY" else "it may place no order"
    return (
        f"Once the account has lost more than {shown(stop.value)} {stop.currency} on a day ({stop.timezone}; {so_far}),"
        f" {after} there. Losses of what is held, of orders that are open, and until the next measurement go on."
    )
