"""The route that shows what a key can still do at worst."""

from datetime import date
from decimal import Decimal
from typing import Annotated
from uuid import UUID

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import UNSET, Meta, Struct, UnsetType

from openbell_server.application.agents.read_worst_case import ReadWorstCase
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.agents.sentences import sentences
from openbell_server.domain.agents.worst_case import AccountCase, DayAmount, LossStop, WorstCase
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.kinds.losses import MeasuredFrom, OnBreach
from openbell_server.domain.controls.kinds.numbers import shown
from openbell_server.domain.orders.order_terms import OrderSide
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.wire_types import Moment


class AmountBody(Struct, frozen=True):
    """The highest value of one order in a currency, by the strictest rule in it."""

    value: str
    currency: str
    scope: Scope


class DayAmountBody(Struct, frozen=True, kw_only=True):
    """The value of orders that can still be accepted, at most."""

    currency: str
    scope: Scope
    timezone: str
    today: date
    accepted_today: str
    left_today: str
    per_day: str
    # Absent for a key that never expires.
    later_days: int | UnsetType = UNSET
    left_in_all: str | UnsetType = UNSET


class LossStopBody(Struct, frozen=True, kw_only=True):
    """A loss of the day after which the key is stopped in the account."""

    value: str
    currency: str
    scope: Scope
    timezone: str
    measured_from: MeasuredFrom
    on_breach: OnBreach
    is_reached: bool
    # Absent while it is not measured.
    lost_today: str | UnsetType = UNSET


class WorstAccountsBody(Struct, frozen=True, kw_only=True):
    """What the key can do in each of these accounts; an absent field and an empty list are unlimited."""

    account_ids: list[UUID]
    sides: list[OrderSide]
    sells_only_what_is_held: bool
    order_values: list[AmountBody]
    order_values_with_price: Annotated[
        list[AmountBody], Meta(description="without a price, rate or instrument these limits do not apply")
    ]
    day_values: list[DayAmountBody]
    losses: list[LossStopBody]
    stopped_by: Annotated[str, Meta(description="why it cannot raise risk at present")] | UnsetType = UNSET
    symbols: list[str] | UnsetType = UNSET
    denied_symbols: list[str] | UnsetType = UNSET
    quantity: str | UnsetType = UNSET
    position: str | UnsetType = UNSET
    orders_per_minute: int | UnsetType = UNSET
    open_orders: int | UnsetType = UNSET


class WorstCaseBody(Struct, frozen=True, kw_only=True):
    """What a key can still do at worst until it expires, by the rules in force."""

    api_key_id: UUID
    as_of: Moment
    environment: Environment
    sentences: list[str]
    can_trade: Annotated[bool, Meta(description="whether it has intent:edit")]
    can_change_orders_of_others: bool
    can_loosen: bool
    accounts: list[WorstAccountsBody]
    has_more_accounts: bool
    days: Annotated[list[DayAmountBody], Meta(description="of all accounts together; empty: unlimited")]
    ended_by: Annotated[str, Meta(description="revoked, expired or disabled")] | UnsetType = UNSET
    expires_at: Moment | UnsetType = UNSET


def worst_case_route(enter: Enter, read: ReadWorstCase) -> HTTPRouteHandler:
    @get("/v1/api-keys/{api_key_id:uuid}/worst-case")
    async def show_worst_case(request: AnyRequest, api_key_id: FromPath[UUID]) -> WorstCaseBody:
        admin = await enter(request, Operation.MANAGE_KEYS)
        return worst_case_body(await read(admin, api_key_id))

    return show_worst_case


def worst_case_body(case: WorstCase) -> WorstCaseBody:
    key = case.key
    return WorstCaseBody(
        api_key_id=key.id,
        as_of=case.now,
        environment=key.environment,
        sentences=sentences(case),
        can_trade=case.can_trade,
        can_change_orders_of_others=case.can_trade and not key.own_orders_only,
        can_loosen=case.can_loosen,
        accounts=[_accounts_body([*ids], of) for ids, of in case.accounts],
        has_more_accounts=case.has_more_accounts,
        days=[_day_body(day) for day in case.days],
        ended_by=case.ended_by or UNSET,
        expires_at=key.expires_at or UNSET,
    )


def _accounts_body(account_ids: list[UUID], of: AccountCase) -> WorstAccountsBody:
    return WorstAccountsBody(
        account_ids=account_ids,
        sides=[OrderSide(side) for side in of.sides],
        sells_only_what_is_held=of.sells_only_what_is_held,
        order_values=[AmountBody(shown(each.value), each.currency, each.scope) for each in of.order_values],
        order_values_with_price=[
            AmountBody(shown(each.value), each.currency, each.scope) for each in of.order_values_with_price
        ],
        day_values=[_day_body(day) for day in of.day_values],
        losses=[_loss_body(stop) for stop in of.losses],
        stopped_by=of.stopped_by or UNSET,
        symbols=UNSET if of.symbols is None else [*of.symbols],
        denied_symbols=[*of.denied_symbols] or UNSET,
        quantity=_text(of.quantity),
        position=_text(of.position),
        orders_per_minute=UNSET if of.orders_per_minute is None else of.orders_per_minute,
        open_orders=UNSET if of.open_orders is None else of.open_orders,
    )


def _day_body(day: DayAmount) -> DayAmountBody:
    return DayAmountBody(
        currency=day.currency,
        scope=day.scope,
        timezone=day.timezone,
        today=day.today,
        accepted_today=shown(day.accepted_today),
        left_today=shown(day.left_today),
        per_day=shown(day.per_day),
        later_days=UNSET if day.later_days is None else day.later_days,
        left_in_all=_text(day.left_in_all),
    )


def _loss_body(stop: LossStop) -> LossStopBody:
    return LossStopBody(
        value=shown(stop.value),
        currency=stop.currency,
        scope=stop.scope,
        timezone=stop.timezone,
        measured_from=MeasuredFrom(stop.measured_from),
        on_breach=OnBreach(stop.on_breach),
        is_reached=stop.is_reached,
        lost_today=_text(stop.lost_today),
    )


def _text(number: Decimal | None) -> str | UnsetType:
    return UNSET if number is None else shown(number)
