"""Every kind of control, in the order in which a receipt lists them."""

from collections.abc import Mapping
from typing import Any, Final

from openbell_server.domain import (
    control_exposure,
    control_increments,
    control_lists,
    control_prices,
    control_repeats,
    control_sizes,
    control_switches,
    control_times,
)
from openbell_server.domain.control_kinds import ControlKind
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.findings import Scope

CATALOGUE: Final[dict[str, ControlKind]] = {
    kind.code: kind
    for kind in (
        control_switches.SWITCHES,
        control_switches.SYMBOL_SWITCHES,
        control_lists.RESTRICTED,
        control_lists.SIDE_NOT_ALLOWED,
        control_times.OUTSIDE_TRADING_WINDOW,
        control_times.MARKET_CLOSED,
        control_times.STALE_ORDER,
        control_sizes.QTY_MAX,
        control_sizes.QTY_MIN,
        control_prices.NOTIONAL_MAX,
        control_increments.TICK,
        control_increments.LOT,
        control_prices.PRICE_COLLAR,
        control_repeats.DUPLICATE,
        control_repeats.RATE_ORDERS,
        control_exposure.OPEN_ORDERS_MAX,
        control_exposure.POSITION_MAX,
    )
}
PLACES: Final = {code: place for place, code in enumerate(CATALOGUE)}
SETTABLE: Final = tuple(code for code, kind in CATALOGUE.items() if kind.settable)


def checked_parameters(code: str, scope: Scope, parameters: Mapping[str, Any]) -> object:
    """The parameters of a rule that somebody sets, if such a rule may be set there."""
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
