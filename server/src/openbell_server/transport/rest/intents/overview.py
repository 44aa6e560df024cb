"""The route of what is going on in every account."""

from uuid import UUID

from litestar import get
from litestar.handlers import HTTPRouteHandler
from msgspec import UNSET, Struct, UnsetType

from openbell_server.application.intents.read_overview import ReadOverview
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.controls.rules import SwitchState
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.query_parameters import page_of
from openbell_server.transport.rest.wire_types import Moment, PageOf, body_from


class AccountOverviewBody(Struct, frozen=True):
    """What is going on in an account; counts go up to 1000."""

    account_id: UUID
    name: str
    environment: Environment
    disabled: bool
    # The stricter one of the account's switch and the organization's.
    switch: SwitchState
    open_orders: int
    unknown_orders: int
    executions_last_minute: int
    # Why the platform halted the account.
    halt_code: str | UnsetType = UNSET
    # Since when its oldest command waits to be sent.
    oldest_queued_at: Moment | UnsetType = UNSET


class OverviewPageBody(PageOf[AccountOverviewBody], frozen=True):
    """A page of accounts with what is going on in each."""


def overview_route(enter: Enter, read: ReadOverview) -> HTTPRouteHandler:
    @get("/v1/overview")
    async def show_overview(request: AnyRequest) -> OverviewPageBody:
        caller = await enter(request, Operation.READ_INTENTS)
        page = await read(caller, *page_of(request))
        rows = [body_from(AccountOverviewBody, row) for row in page.rows]
        return OverviewPageBody(rows, page.next_cursor, page.last_cursor)

    return show_overview
