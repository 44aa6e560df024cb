"""The route of the reports on an account's halts."""

from typing import Final
from uuid import UUID

from litestar import get
from litestar.handlers import HTTPRouteHandler
from msgspec import UNSET, Struct, UnsetType

from openbell_server.application.controls.read_halt_reports import ReadHaltReports
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.halts import HaltFigures, HaltReport, OpenOrders, no_working_orders
from openbell_server.domain.controls.rules import SwitchState
from openbell_server.domain.errors import InvalidParameter
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.intents import ActionType
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.query_parameters import page_of, uuid_of
from openbell_server.transport.rest.wire_types import Moment, PageOf, body_from

_LIFTED: Final = "the halt has ended, so orders may work again"


class InFlightBody(Struct, frozen=True):
    """A command that passed its door before the halt; it was sent within two seconds after it, or not at all."""

    intent_id: UUID
    seq: int
    action_id: UUID
    action_type: ActionType
    symbol: str
    status: ActionState
    dispatched_at: Moment
    settled_at: Moment | None


class CancelsBody(Struct, frozen=True):
    """Cancels that the halt requested."""

    asked: int
    confirmed: int
    ended_otherwise: int
    waiting: int
    last_confirmed_at: Moment | None


class OpenOrderBody(Struct, frozen=True):
    """An order that is, or may be, open at the broker."""

    intent_id: UUID
    symbol: str
    status: str
    in_doubt: bool
    updated_at: Moment


class HaltedAccountBody(Struct, frozen=True):
    """What is or may be open on the account now."""

    as_of: Moment
    open_orders: int
    in_doubt: int
    queued: int
    orders: list[OpenOrderBody]
    external_open_orders: int
    external_orders: list[str]


class HaltReportBody(Struct, frozen=True, kw_only=True):
    """A switch that stopped all or part of the account, and its effect on the commands in its scope."""

    id: UUID
    account_id: UUID
    scope: Scope
    status: SwitchState
    version: int
    since: Moment
    # Null while it is in force.
    until: Moment | None
    cancel_working: bool
    principal_type: str
    noticed_at: Moment | None
    doors_opened_after: int | None
    reducing_doors_after: int
    queued: int
    skipped: int
    in_flight: int
    in_flight_commands: list[InFlightBody]
    cancels: CancelsBody
    # True only if the broker confirmed it; null if it is not known, and after the halt.
    no_working_orders: bool | None
    why: str | None
    # When the broker's list was last read; after the halt, when it was first read with no order of ours open.
    compared_at: Moment | None
    # An operator of the platform has no id here.
    principal_id: str | UnsetType = UNSET
    symbol: str | UnsetType = UNSET
    api_key_id: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    # Only while it is in force.
    account: HaltedAccountBody | UnsetType = UNSET


class HaltReportListBody(PageOf[HaltReportBody], frozen=True):
    """A page of reports, newest first."""


def halt_report_route(enter: Enter, read: ReadHaltReports) -> HTTPRouteHandler:
    @get("/v1/halt-reports")
    async def list_halt_reports(request: AnyRequest) -> HaltReportListBody:
        caller = await enter(request, Operation.READ_CONTROLS)
        account_id = uuid_of(request, "account_id")
        if account_id is None:
            raise InvalidParameter("account_id", "is required", "required")
        page = await read(caller, AccountId(account_id), *page_of(request))
        reports = [_body(AccountId(account_id), report) for report in page.rows]
        return HaltReportListBody(reports, page.next_cursor, page.last_cursor)

    return list_halt_reports


def _body(account_id: AccountId, report: HaltReport) -> HaltReportBody:
    halt, figures, account = report.halt, report.figures, report.account
    confirmed, why = (None, _LIFTED) if account is None else no_working_orders(account.quietness)
    principal_type, principal_id = halt.principal
    return body_from(
        HaltReportBody,
        halt,
        halt.switch,
        figures,
        account_id=account_id,
        status=halt.switch.state,
        since=halt.halted_at,
        until=halt.lifted_at,
        principal_type=principal_type,
        principal_id=principal_id,
        in_flight_commands=[body_from(InFlightBody, each, status=each.state) for each in report.in_flight],
        cancels=_cancels_body(figures),
        no_working_orders=confirmed,
        why=why,
        compared_at=halt.compared_at if account is None else account.quietness.compared_at,
        account=None if account is None else _account_body(account),
    )


def _cancels_body(figures: HaltFigures) -> CancelsBody:
    return CancelsBody(
        asked=figures.cancels_asked,
        confirmed=figures.cancels_confirmed,
        ended_otherwise=figures.ended_otherwise,
        waiting=figures.cancels_asked - figures.cancels_confirmed - figures.ended_otherwise,
        last_confirmed_at=figures.last_confirmed_at,
    )


def _account_body(account: OpenOrders) -> HaltedAccountBody:
    return body_from(
        HaltedAccountBody,
        account.quietness,
        orders=[body_from(OpenOrderBody, order) for order in account.open_orders],
        external_open_orders=account.quietness.external_orders,
        external_orders=[*account.external_orders],
    )
