"""The route of the controls in force at a place."""

from typing import Any
from uuid import UUID

from litestar import get
from litestar.handlers import HTTPRouteHandler
from msgspec import UNSET, Struct, UnsetType

from openbell_server.application.controls.read_effective_controls import EffectiveControls, ReadEffectiveControls
from openbell_server.application.controls.set_rules import Place
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.controls.catalogue import CATALOGUE
from openbell_server.domain.controls.effective import EffectiveRule
from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.controls.rules import OnMissing
from openbell_server.domain.identifiers import AccountId
from openbell_server.transport.rest.controls.rules import place_at
from openbell_server.transport.rest.controls.symbol_control_bodies import (
    ManualControlBody,
    TimeControlBody,
    manual_control_body,
    time_control_body,
)
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.query_parameters import page_of
from openbell_server.transport.rest.wire_types import Moment, PageOf, body_from


class EffectiveRuleBody(Struct, frozen=True, kw_only=True):
    """A rule or switch in force, with its parameters and their defaults.

    A default of the platform has no version. A rule without parameters cannot be read by this version of the server,
    and refuses everything.
    """

    scope: Scope
    code: str
    mode: Mode
    # No other rule of this code that refuses, and applies wherever this one does, is stricter.
    is_strictest: bool
    account_id: UUID | UnsetType = UNSET
    symbol: str | UnsetType = UNSET
    api_key_id: UUID | UnsetType = UNSET
    parameters: dict[str, Any] | UnsetType = UNSET
    on_missing: OnMissing | UnsetType = UNSET
    expires_at: Moment | UnsetType = UNSET
    version: int | UnsetType = UNSET
    updated_at: Moment | UnsetType = UNSET
    principal_type: str | UnsetType = UNSET
    # An operator of the platform has no id here.
    principal_id: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class EffectiveControlsBody(PageOf[EffectiveRuleBody], frozen=True, kw_only=True):
    """A page of the rules and switches in force, the widest scope first, and the controls of the symbol."""

    # True if refusals are recorded and not enforced: on a paper account of an organization that chose so.
    watched_only: bool
    symbol_control: ManualControlBody | UnsetType = UNSET
    symbol_times: TimeControlBody | UnsetType = UNSET


def effective_route(enter: Enter, read: ReadEffectiveControls) -> HTTPRouteHandler:
    @get("/v1/controls/effective")
    async def list_effective_controls(request: AnyRequest) -> EffectiveControlsBody:
        caller = await enter(request, Operation.READ_CONTROLS)
        place = place_at(request, Scope.ORGANIZATION)
        return _body(caller, place, await read(caller, place, *page_of(request)))

    return list_effective_controls


def _body(caller: Principal, place: Place, found: EffectiveControls) -> EffectiveControlsBody:
    return EffectiveControlsBody(
        data=[_rule_body(place.account_id, each) for each in found.rules.rows],
        next_cursor=found.rules.next_cursor,
        last_cursor=found.rules.last_cursor,
        watched_only=found.is_watched_only,
        symbol_control=manual_control_body(caller.organization_id, *found.manual) if found.manual else UNSET,
        symbol_times=time_control_body(caller.organization_id, *found.times) if found.times else UNSET,
    )


def _rule_body(account_id: AccountId | None, found: EffectiveRule) -> EffectiveRuleBody:
    rule, origin = found.rule, found.rule.origin
    principal_type, principal_id = (None, None) if origin is None else origin.principal
    return body_from(
        EffectiveRuleBody,
        rule,
        is_strictest=found.is_strictest,
        account_id=account_id if rule.scope in (Scope.ACCOUNT, Scope.SYMBOL) else None,
        parameters=None if rule.parameters is None else CATALOGUE[rule.code].shape.encode(rule.parameters),
        expires_at=rule.applies_until,
        updated_at=None if origin is None else origin.updated_at,
        principal_type=principal_type,
        principal_id=None if rule.scope is Scope.PLATFORM else principal_id,
        reason=None if origin is None else origin.reason,
    )
