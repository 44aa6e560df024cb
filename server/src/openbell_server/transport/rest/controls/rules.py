"""The routes of rules and switches; the query has the scope."""

from typing import Final

from litestar import Response, Router, delete, get, put
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from openbell_server.application.controls.set_rules import Place, SetRules, edit_at
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.controls.catalogue import SETTABLE
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import SWITCH, StoredRule
from openbell_server.domain.errors import InvalidParameter
from openbell_server.domain.identifiers import AccountId
from openbell_server.transport.rest.controls.rule_bodies import (
    RuleBody,
    RuleChangePageBody,
    RuleListBody,
    RuleRequest,
    SwitchBody,
    SwitchListBody,
    SwitchRequest,
    change_page_body,
    rule_body,
    rule_list_body,
    switch_body,
    switch_list_body,
    unset_switch_list_body,
)
from openbell_server.transport.rest.entry import AnyRequest, Enter, etag_of, if_match_of
from openbell_server.transport.rest.query_parameters import choice_of, page_of, reason_of, sole, uuid_of
from openbell_server.transport.rest.strict_json import body_reader

# What each scope is addressed by.
_NAMED_BY: Final = {
    Scope.ORGANIZATION: (),
    Scope.ACCOUNT: ("account_id",),
    Scope.SYMBOL: ("account_id", "symbol"),
    Scope.KEY: ("api_key_id",),
}
CHANGED_CODES: Final = (SWITCH, *SETTABLE)


def rule_routes(enter: Enter, read: SetRules, change: SetRules) -> list[Router | HTTPRouteHandler]:
    """Reads and changes have connections of their own, so that reads do not delay a halt."""
    return [_rule_routes(enter, read, change), _switch_routes(enter, read, change), _change_route(enter, read)]


def _rule_routes(enter: Enter, read: SetRules, change: SetRules) -> Router:
    @get("/")
    async def list_rules(request: AnyRequest) -> RuleListBody:
        caller = await enter(request, Operation.READ_CONTROLS)
        scope, place = _scope(request), _place_of_list(request)
        _, page = await read.list_at(caller, place, scope, page_of(request), switches=False)
        return rule_list_body(page)

    @get("/{code:str}")
    async def show_rule(request: AnyRequest, code: FromPath[str]) -> Response[RuleBody]:
        caller = await enter(request, Operation.READ_CONTROLS)
        return _rule(await read.show(caller, _place(request), code))

    @put("/{code:str}")
    async def put_rule(request: AnyRequest, code: FromPath[str]) -> Response[RuleBody]:
        caller = await enter(request, _edit(request))
        place, expected = _place(request), if_match_of(request)
        decode = body_reader(request, RuleRequest, RuleRequest.to_wanted)
        return _rule(await change.put(caller, place, code, decode, expected))

    @delete("/{code:str}")
    async def delete_rule(request: AnyRequest, code: FromPath[str]) -> None:
        caller = await enter(request, _edit(request))
        await change.remove(caller, _place(request), code, reason_of(request), if_match_of(request))

    return Router("/v1/controls/rules", route_handlers=[list_rules, show_rule, put_rule, delete_rule])


def _switch_routes(enter: Enter, read: SetRules, change: SetRules) -> Router:
    @get("/")
    async def list_switches(request: AnyRequest) -> SwitchListBody:
        caller = await enter(request, Operation.READ_CONTROLS)
        scope, place = _scope(request), _place_of_list(request)
        address, page = await read.list_at(caller, place, scope, page_of(request), switches=True)
        is_one = scope is address.scope and sole(request, "next_cursor") is None
        return switch_list_body(page) if page.rows or not is_one else unset_switch_list_body(address)

    @put("/")
    async def put_switch(request: AnyRequest) -> Response[SwitchBody]:
        caller = await enter(request, _edit(request))
        place, expected = _place(request), if_match_of(request)
        decode = body_reader(request, SwitchRequest, SwitchRequest.to_wanted)
        switch = await change.put_switch(caller, place, decode, expected)
        return Response(switch_body(switch), headers=etag_of(switch.version))

    return Router("/v1/controls/switches", route_handlers=[list_switches, put_switch])


def _change_route(enter: Enter, read: SetRules) -> HTTPRouteHandler:
    @get("/v1/controls/changes")
    async def list_control_changes(request: AnyRequest) -> RuleChangePageBody:
        caller = await enter(request, Operation.READ_CONTROLS)
        scope, place, code = _scope(request), _place_of_list(request), choice_of(request, "code", CHANGED_CODES)
        return change_page_body(await read.changes(caller, place, scope, code, page_of(request)))

    return list_control_changes


def _edit(request: AnyRequest) -> Operation:
    """The operation that a change needs; a caller who may not make it learns nothing about the other parameters."""
    return edit_at(sole(request, "scope"))


def _place(request: AnyRequest) -> Place:
    """The place that the query names: its scope, and exactly what that scope is addressed by."""
    scope = _scope(request)
    if scope is None:
        raise InvalidParameter("scope", f"is required: one of {', '.join(_NAMED_BY)}", "required")
    needed = _NAMED_BY[scope]
    for name in ("account_id", "symbol", "api_key_id"):
        if (sole(request, name) is not None) != (name in needed):
            message = f"is required with scope {scope}" if name in needed else f"does not go with scope {scope}"
            raise InvalidParameter(name, message, "required" if name in needed else "invalid")
    return place_at(request, scope)


def _place_of_list(request: AnyRequest) -> Place:
    """The place that a list is about; its rules may be of narrower scopes too."""
    account_id, symbol, api_key_id = (sole(request, name) for name in ("account_id", "symbol", "api_key_id"))
    if api_key_id is not None and account_id is not None:
        raise InvalidParameter("api_key_id", "does not go with account_id")
    if symbol is not None:
        return place_at(request, Scope.SYMBOL)
    if account_id is not None:
        return place_at(request, Scope.ACCOUNT)
    return place_at(request, Scope.ORGANIZATION if api_key_id is None else Scope.KEY)


def _scope(request: AnyRequest) -> Scope | None:
    return choice_of(request, "scope", _NAMED_BY)


def place_at(request: AnyRequest, scope: Scope) -> Place:
    """The account, symbol and key that the query names."""
    account_id, symbol = uuid_of(request, "account_id"), sole(request, "symbol")
    if symbol is not None and account_id is None:
        raise InvalidParameter("account_id", "is required with symbol", "required")
    return Place(
        scope=scope,
        account_id=None if account_id is None else AccountId(account_id),
        symbol=symbol,
        api_key_id=uuid_of(request, "api_key_id"),
    )


def _rule(rule: StoredRule) -> Response[RuleBody]:
    return Response(rule_body(rule), headers=etag_of(rule.version))
