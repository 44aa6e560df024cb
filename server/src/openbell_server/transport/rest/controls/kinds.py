"""The route of the kinds of rules."""

from typing import Any

from litestar import get
from litestar.handlers import HTTPRouteHandler
from msgspec import UNSET, Struct, UnsetType

from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.controls.catalogue import CATALOGUE
from openbell_server.domain.controls.facts import Gate
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.kind import ControlKind, Unit
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.wire_types import PageOf, body_from


class ControlKindBody(Struct, frozen=True, kw_only=True):
    """A kind of rule."""

    code: str
    summary: str
    # A JSON schema.
    parameters: dict[str, Any]
    # Where it can be set; what its parameters are may narrow that.
    scopes: list[Scope]
    # When it is evaluated: when a command is accepted, and just before it is sent.
    gates: list[Gate]
    # Whether it counts orders, positions or commands under the account's lock.
    counts: bool
    # False if it is not set as a rule, but by a switch or the control of a symbol.
    settable: bool
    # What its limit is measured in; absent if that is not a number.
    unit: Unit | UnsetType = UNSET


class ControlKindsBody(PageOf[ControlKindBody], frozen=True):
    """All kinds of rules, in the order in which a receipt lists them."""


def kinds_route(enter: Enter) -> HTTPRouteHandler:
    body = ControlKindsBody([kind_body(kind) for kind in CATALOGUE.values()])

    @get("/v1/controls/kinds")
    async def list_control_kinds(request: AnyRequest) -> ControlKindsBody:
        await enter.anywhere(request, Operation.READ_CONTROL_KINDS)
        return body

    return list_control_kinds


def kind_body(kind: ControlKind) -> ControlKindBody:
    return body_from(
        ControlKindBody,
        kind,
        parameters=kind.shape.schema(),
        scopes=[scope for scope in Scope if scope in kind.scopes],
        gates=[gate for gate in Gate if gate in kind.gates],
    )
