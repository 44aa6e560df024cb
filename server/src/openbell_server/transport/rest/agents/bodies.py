"""The body of an agent's budget."""

from typing import Annotated
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from openbell_server.domain.access.api_keys import ACCOUNT_IDS_MAX
from openbell_server.domain.agents.budget import OPEN_ORDERS, Budget
from openbell_server.domain.controls.catalogue import CATALOGUE
from openbell_server.transport.rest.wire_types import ZoneText


def _form(code: str, parameter: str) -> dict[str, object]:
    """The JSON schema of a rule's parameter; the rule checks it."""
    return dict(CATALOGUE[code].shape.forms[parameter].schema)


Amount = Annotated[str, Meta(extra_json_schema=_form("NOTIONAL_MAX", "value"))]
AccountIds = Annotated[
    list[UUID],
    Meta(
        description="the only accounts that the key may use; without it, all of its environment",
        extra_json_schema={"minItems": 1, "maxItems": ACCOUNT_IDS_MAX},
    ),
]


class AgentBody(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What an agent may use and spend: each limit becomes a rule of the key."""

    account_ids: AccountIds
    symbols: Annotated[
        list[str],
        Meta(description="the only symbols that it may trade", extra_json_schema=_form("RESTRICTED", "symbols")),
    ]
    order_notional: Annotated[Amount, Meta(description="the highest value of one order (NOTIONAL_MAX)")]
    day_notional: Annotated[Amount, Meta(description="the highest value of all orders of a day (DAY_NOTIONAL_MAX)")]
    day_loss: Annotated[Amount, Meta(description="the loss of a day after which an account is only reduced (LOSS_MAX)")]
    currency: Annotated[str, Meta(extra_json_schema=_form("NOTIONAL_MAX", "currency"))]
    orders_per_minute: Annotated[
        int, Meta(description="orders and replacements (RATE_ORDERS)", extra_json_schema=_form("RATE_ORDERS", "count"))
    ]
    open_orders: Annotated[
        int, Meta(description="per account (OPEN_ORDERS_MAX)", extra_json_schema=_form("OPEN_ORDERS_MAX", "count"))
    ] = OPEN_ORDERS
    no_short: Annotated[bool, Meta(description="sell only what is held (SIDE_NOT_ALLOWED)")] = True
    timezone: Annotated[ZoneText, Meta(description="where a day begins; default: each account's zone")] | UnsetType = (
        UNSET
    )

    def to_budget(self) -> Budget:
        return Budget(
            symbols=self.symbols,
            order_notional=self.order_notional,
            day_notional=self.day_notional,
            day_loss=self.day_loss,
            currency=self.currency,
            orders_per_minute=self.orders_per_minute,
            open_orders=self.open_orders,
            no_short=self.no_short,
            timezone=None if self.timezone is UNSET else self.timezone,
        )
