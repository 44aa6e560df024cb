"""Every kind of control, in the order in which a receipt lists them."""

from typing import Final

from openbell_server.domain import control_sizes, control_times
from openbell_server.domain.control_kinds import ControlKind

CATALOGUE: Final[dict[str, ControlKind]] = {
    kind.code: kind
    for kind in (
        control_times.OUTSIDE_TRADING_WINDOW,
        control_times.MARKET_CLOSED,
        control_times.STALE_ORDER,
        control_sizes.QTY_MAX,
        control_sizes.QTY_MIN,
    )
}
PLACES: Final = {code: place for place, code in enumerate(CATALOGUE)}
