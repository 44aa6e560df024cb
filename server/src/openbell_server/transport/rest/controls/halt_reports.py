"""The route that reports the effect of an account's halts."""

from uuid import UUID

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import UNSET, Struct, UnsetType

from openbell_server.application.controls.read_halt_report import ReadHaltReport
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.halts import Halt, HaltFigures, HaltReport, no_working_orders
from openbell_server.domain.controls.rules import SwitchState
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.intents import ActionType
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.wire_types import Moment, body_from


class InFlightBody(Struct, frozen=True):
    """A command that passed its door before the halt; it was sent within two seconds after it, or not at all."""

    intent_id: UUID
    seq: int
    action_id: UUID
    action_type: ActionType
    symbol: str
    status: ActionState
    door_opened_at: Moment
    settled_at: Moment | None


class CancelsBody(Struct, frozen=True):
    """Cancels that the halt requested."""

    asked: int
    confirmed: int
    ended_otherwise: int
    waiting: int
    last_confirmed_at: Moment | None


class HaltBody(Struct, frozen=True):
    """A switch that stops all or part of the account, and the state of the commands in its scope."""

    scope: Scope
    status: SwitchState
    version: int
    since: Moment
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
    # An operator of the platform has no id here.
    principal_id: str | UnsetType = UNSET
    symbol: str | UnsetType = UNSET
    api_key_id: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class OpenOrderBody(Struct, frozen=True):
    """An order that is, or may be, open at the broker."""

    intent_id: UUID
    symbol: str
    status: str
    in_doubt: bool
    updated_at: Moment


class HaltReportBody(Struct, frozen=True):
    """The effect of an account's halts."""

    account_id: UUID
    as_of: Moment
    # True only if the broker confirmed it.
    no_working_orders: bool | None
    why: str | None
    compared_at: Moment | None
    halts: list[HaltBody]
    open_orders: int
    in_doubt: int
    queued: int
    orders: list[OpenOrderBody]
    external_open_orders: int
    external_orders: list[str]


def halt_report_route(enter: Enter, read: ReadHaltReport) -> HTTPRouteHandler:
    @get("/v1/accounts/{account_id:uuid}/halt-report")
    async def show_halt_report(request: AnyRequest, account_id: FromPath[UUID]) -> HaltReportBody:
        caller = await enter(request, Operation.READ_CONTROLS)
        return _body(AccountId(account_id), await read(caller, AccountId(account_id)))

    return show_halt_report


def _body(account_id: AccountId, report: HaltReport) -> HaltReportBody:
    quiet = report.quietness
    confirmed, why = no_working_orders(quiet)
    return body_from(
        HaltReportBody,
        quiet,
        account_id=account_id,
        no_working_orders=confirmed,
        why=why,
        halts=[
            _halt_body(halt, figures, [body_from(InFlightBody, command, status=command.state) for command in listed])
            for halt, figures, listed in report.halts
        ],
        orders=[body_from(OpenOrderBody, order) for order in report.open_orders],
        external_open_orders=quiet.external_orders,
        external_orders=[*report.external_orders],
    )


def _halt_body(halt: Halt, figures: HaltFigures, in_flight: list[InFlightBody]) -> HaltBody:
    switch, (principal_type, principal_id) = halt.switch, halt.principal
    return body_from(
        HaltBody,
        figures,
        scope=switch.scope,
        status=switch.state,
        version=switch.version,
        since=halt.halted_at,
        cancel_working=halt.cancel_working,
        principal_type=principal_type,
        principal_id=principal_id or None,
        noticed_at=halt.noticed_at,
        in_flight_commands=in_flight,
        cancels=CancelsBody(
            asked=figures.cancels_asked,
            confirmed=figures.cancels_confirmed,
            ended_otherwise=figures.ended_otherwise,
            waiting=figures.cancels_asked - figures.cancels_confirmed - figures.ended_otherwise,
            last_confirmed_at=figures.last_confirmed_at,
        ),
        symbol=switch.symbol,
        api_key_id=switch.api_key_id,
        reason=halt.reason,
    )
