"""Every kind of control, in the order in which a receipt lists them."""

from collections.abc import Mapping
from typing import Any, Final

from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.kind import ControlKind
from openbell_server.domain.controls.kinds import (
    day_values,
    exposure,
    funds,
    gross,
    increments,
    lists,
    losses,
    prices,
    repeats,
    sizes,
    switches,
    times,
)
from openbell_server.domain.errors import InvalidCommand

CATALOGUE: Final[dict[str, ControlKind]] = {
    kind.code: kind
    for kind in (
        switches.SWITCHES,
        switches.SYMBOL_SWITCHES,
        lists.RESTRICTED,
        lists.SIDE_NOT_ALLOWED,
        times.OUTSIDE_TRADING_WINDOW,
        times.MARKET_CLOSED,
        times.STALE_ORDER,
        sizes.QTY_MAX,
        sizes.QTY_MIN,
        prices.NOTIONAL_MAX,
        day_values.DAY_NOTIONAL_MAX,
        increments.TICK,
        increments.LOT,
        prices.PRICE_COLLAR,
        repeats.DUPLICATE,
        repeats.RATE_ORDERS,
        exposure.OPEN_ORDERS_MAX,
        exposure.POSITION_MAX,
        gross.GROSS_MAX,
        funds.BUYING_POWER,
        exposure.SELF_MATCH,
        losses.LOSS_MAX,
    )
}
PLACES: Final = {code: place for place, code in enumerate(CATALOGUE)}
SETTABLE: Final = tuple(code for code, kind in CATALOGUE.items() if kind.settable)


def checked_parameters(code: str, scope: Scope, parameters: Mapping[str, Any]) -> object:
    """The decoded parameters of a rule; raises InvalidCommand if such a rule cannot be set at the scope."""
    kind = CATALOGUE.get(code)
    if kind is None or not kind.settable:
        raise InvalidCommand("/code", f"must be one of {', '.join(SETTABLE)}")
    if scope not in kind.scopes:
        raise InvalidCommand("/code", _where(code, scope, kind.scopes))
    decoded = kind.decode(parameters)
    if kind.scopes_of is not None and scope not in kind.scopes_of(decoded):
        raise InvalidCommand("/parameters", _where(code, scope, kind.scopes_of(decoded)))
    return decoded


def _where(code: str, scope: Scope, scopes: frozenset[Scope]) -> str:
    places = ", ".join(each for each in Scope if each in scopes)
    return f"cannot be set at the scope {scope}: {code} like this is for {places}"
