"""What an agent may spend: it becomes ordinary rules at the scope of its key."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from openbell_server.domain.access.principals import ACCOUNT_READ, CONTROL_READ, EVENT_READ, INTENT_EDIT, INTENT_READ
from openbell_server.domain.controls.catalogue import checked_parameters
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import OnMissing, RuleTerms
from openbell_server.domain.errors import InvalidCommand

OPEN_ORDERS: Final = 10
AGENT_PERMISSIONS: Final = frozenset({INTENT_EDIT, INTENT_READ, ACCOUNT_READ, EVENT_READ, CONTROL_READ})
_MINUTE_MILLIS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Amounts are decimal texts in one currency."""

    symbols: Sequence[str]
    order_notional: str
    day_notional: str
    day_loss: str
    currency: str
    orders_per_minute: int
    open_orders: int = OPEN_ORDERS
    no_short: bool = True
    # Where a day begins; None: the zone of each account.
    timezone: str | None = None

    def rules(self) -> dict[str, RuleTerms]:
        """The rules by code; raises InvalidCommand for a field that no rule can have."""
        return {code: _terms(code, fields) for code, fields in self._fields().items()}

    def _fields(self) -> dict[str, dict[str, tuple[str, Any]]]:
        """By code and parameter: the name of the field, and its value; those without a field are fixed."""
        currency = {"currency": ("currency", self.currency)}
        zone = {} if self.timezone is None else {"timezone": ("timezone", self.timezone)}
        short = {"SIDE_NOT_ALLOWED": {"no_short": ("no_short", True)}} if self.no_short else {}
        return {
            "RESTRICTED": {"list": ("", "ALLOW_ONLY"), "symbols": ("symbols", list(self.symbols))},
            **short,
            "NOTIONAL_MAX": {"value": ("order_notional", self.order_notional), **currency},
            "DAY_NOTIONAL_MAX": {"value": ("day_notional", self.day_notional), **currency, **zone},
            "DUPLICATE": {"callers_may_override": ("", False)},
            "RATE_ORDERS": {
                "count": ("orders_per_minute", self.orders_per_minute),
                "window_millis": ("", _MINUTE_MILLIS),
            },
            "OPEN_ORDERS_MAX": {"count": ("open_orders", self.open_orders)},
            "LOSS_MAX": {"value": ("day_loss", self.day_loss), **currency, **zone},
        }


def _terms(code: str, fields: dict[str, tuple[str, Any]]) -> RuleTerms:
    parameters = {name: value for name, (_, value) in fields.items()}
    try:
        checked_parameters(code, Scope.KEY, parameters)
    except InvalidCommand as error:
        name = error.errors[0].pointer.rpartition("/")[2]
        field = fields[name][0] if name in fields else ""
        message = error.errors[0].message.partition("; the parameters are ")[0]
        raise InvalidCommand(f"/agent/{field}".rstrip("/"), message) from None
    # A missing price must not open a hole, on paper accounts as well.
    return RuleTerms(on_missing=OnMissing.DENY, parameters=parameters)
