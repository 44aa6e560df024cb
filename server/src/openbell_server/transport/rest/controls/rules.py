"""The routes of rules and switches, the same at every scope."""

from typing import Final
from urllib.parse import unquote

from litestar import Response, Router, delete, get, put
from litestar.params import FromPath

from openbell_server.application.controls.set_rules import Place, SetRules
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import Address, StoredRule
from openbell_server.domain.identifiers import AccountId
from openbell_server.transport.rest.controls.rule_bodies import (
    RuleBody,
    RuleChangePageBody,
    RuleListBody,
    RuleRequest,
    SwitchBody,
    SwitchRequest,
    change_page_body,
    rule_body,
    switch_body,
)
from openbell_server.transport.rest.entry import AnyRequest, Enter, etag_of, if_match_of
from openbell_server.transport.rest.query_parameters import page_of, reason_of
from openbell_server.transport.rest.strict_json import body_reader

# Paths are not decoded by the router, so a symbol may contain %2F.
PLACES: Final = {
    Scope.ORGANIZATION: "/v1/controls/organization",
    Scope.ACCOUNT: "/v1/controls/accounts/{account_id:uuid}",
    Scope.SYMBOL: "/v1/controls/accounts/{account_id:uuid}/symbols/{symbol:str}",
    Scope.KEY: "/v1/controls/keys/{api_key_id:uuid}",
}


def rule_routes(enter: Enter, read: SetRules, change: SetRules) -> list[Router]:
    """Reads and changes have connections of their own, so that reads do not delay a halt."""
    given = enter, read, change
    return [routes for scope in PLACES for routes in (_rules_of(scope, *given), _switch_of(scope, *given))]


def _rules_of(scope: Scope, enter: Enter, read: SetRules, change: SetRules) -> Router:
    @get("/")
    async def list_rules(request: AnyRequest) -> RuleListBody:
        caller = await enter(request, Operation.READ_CONTROLS)
        return RuleListBody([rule_body(rule) for rule in await read.list_all(caller, _place(request, scope))])

    @get("/{code:str}")
    async def show_rule(request: AnyRequest, code: FromPath[str]) -> Response[RuleBody]:
        caller = await enter(request, Operation.READ_CONTROLS)
        return _rule(await read.show(caller, _place(request, scope), code))

    @put("/{code:str}")
    async def put_rule(request: AnyRequest, code: FromPath[str]) -> Response[RuleBody]:
        place = _place(request, scope)
        caller = await enter(request, place.edit)
        expected = if_match_of(request)
        decode = body_reader(request, RuleRequest, RuleRequest.to_wanted)
        return _rule(await change.put(caller, place, code, decode, expected))

    @delete("/{code:str}")
    async def delete_rule(request: AnyRequest, code: FromPath[str]) -> None:
        place = _place(request, scope)
        caller = await enter(request, place.edit)
        await change.remove(caller, place, code, reason_of(request), if_match_of(request))

    @get("/{code:str}/history")
    async def list_rule_changes(request: AnyRequest, code: FromPath[str]) -> RuleChangePageBody:
        caller = await enter(request, Operation.READ_CONTROLS)
        return change_page_body(await read.history(caller, _place(request, scope), code, *page_of(request)))

    return Router(
        f"{PLACES[scope]}/rules", route_handlers=[list_rules, show_rule, put_rule, delete_rule, list_rule_changes]
    )


def _switch_of(scope: Scope, enter: Enter, read: SetRules, change: SetRules) -> Router:
    @get("/")
    async def show_switch(request: AnyRequest) -> Response[SwitchBody]:
        caller = await enter(request, Operation.READ_CONTROLS)
        return _switch(*await read.show_switch(caller, _place(request, scope)))

    @put("/")
    async def put_switch(request: AnyRequest) -> Response[SwitchBody]:
        place = _place(request, scope)
        caller = await enter(request, place.edit)
        expected = if_match_of(request)
        decode = body_reader(request, SwitchRequest, SwitchRequest.to_wanted)
        switch = await change.put_switch(caller, place, decode, expected)
        return _switch(switch.address, switch)

    @get("/history")
    async def list_switch_changes(request: AnyRequest) -> RuleChangePageBody:
        caller = await enter(request, Operation.READ_CONTROLS)
        return change_page_body(await read.switch_history(caller, _place(request, scope), *page_of(request)))

    return Router(f"{PLACES[scope]}/switch", route_handlers=[show_switch, put_switch, list_switch_changes])


def _place(request: AnyRequest, scope: Scope) -> Place:
    named = request.path_params
    account_id, symbol = named.get("account_id"), named.get("symbol")
    return Place(
        scope=scope,
        account_id=None if account_id is None else AccountId(account_id),
        symbol=None if symbol is None else unquote(symbol),
        key_id=named.get("api_key_id"),
    )


def _rule(rule: StoredRule) -> Response[RuleBody]:
    return Response(rule_body(rule), headers=etag_of(rule.version))


def _switch(address: Address, switch: StoredRule | None) -> Response[SwitchBody]:
    body = switch_body(address, switch)
    return Response(body, headers=etag_of(body.version))
