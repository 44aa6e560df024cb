"""The routes of promised heartbeats; the query has the scope."""

from typing import Annotated, Final

from litestar import Router, delete, get, put
from msgspec import Meta, Struct

from openbell_server.application.controls.promise_heartbeats import PromiseHeartbeats, operation_at
from openbell_server.application.controls.set_rules import Place
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.heartbeats import (
    SCOPES,
    TIMEOUT_SECONDS_MAX,
    TIMEOUT_SECONDS_MIN,
    Heartbeat,
    HeartbeatStatus,
    HeartbeatTerms,
)
from openbell_server.domain.errors import InvalidParameter
from openbell_server.transport.rest.controls.rule_bodies import PlacedBody
from openbell_server.transport.rest.controls.rules import place_at
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.query_parameters import choice_of, page_of, sole, uuid_of
from openbell_server.transport.rest.strict_json import body_reader
from openbell_server.transport.rest.wire_types import Moment, PageOf, body_from

Seconds = Annotated[int, Meta(extra_json_schema={"minimum": TIMEOUT_SECONDS_MIN, "maximum": TIMEOUT_SECONDS_MAX})]
_NAMED_BY: Final = {Scope.ACCOUNT: "account_id", Scope.KEY: "api_key_id"}


class HeartbeatRequest(Struct, forbid_unknown_fields=True, frozen=True):
    """Promise a heartbeat within each timeout; cancel_working also cancels working orders if one is missed."""

    timeout_seconds: Seconds
    cancel_working: bool = False

    def to_terms(self) -> HeartbeatTerms:
        return HeartbeatTerms(timeout_seconds=self.timeout_seconds, cancel_working=self.cancel_working)


class HeartbeatBody(PlacedBody, frozen=True, kw_only=True):
    """A promise of heartbeats. EXPIRED: one was missed and the scope was halted."""

    status: HeartbeatStatus
    timeout_seconds: int
    cancel_working: bool
    required: bool
    armed_at: Moment
    last_beat_at: Moment
    expires_at: Moment
    principal_type: str
    principal_id: str


class HeartbeatListBody(PageOf[HeartbeatBody], frozen=True):
    """A page of promises, in the order in which they were first armed."""


def heartbeat_routes(enter: Enter, read: PromiseHeartbeats, change: PromiseHeartbeats) -> Router:
    """Reads and heartbeats have connections of their own."""

    @get("/")
    async def list_heartbeats(request: AnyRequest) -> HeartbeatListBody:
        caller = await enter(request, Operation.READ_CONTROLS)
        scope = choice_of(request, "scope", SCOPES)
        page = await read.list_at(caller, _place_of_list(request), scope, page_of(request))
        return HeartbeatListBody([_body(row) for row in page.rows], page.next_cursor, page.last_cursor)

    @put("/")
    async def put_heartbeat(request: AnyRequest) -> HeartbeatBody:
        caller = await enter(request, operation_at(sole(request, "scope")))
        decode = body_reader(request, HeartbeatRequest, HeartbeatRequest.to_terms)
        return _body(await change.beat(caller, _place(request), decode))

    @delete("/")
    async def delete_heartbeat(request: AnyRequest) -> None:
        caller = await enter(request, operation_at(sole(request, "scope")))
        await change.disarm(caller, _place(request))

    return Router("/v1/controls/heartbeats", route_handlers=[list_heartbeats, put_heartbeat, delete_heartbeat])


def _place(request: AnyRequest) -> Place:
    """A key that promises for itself need not name itself."""
    scope = choice_of(request, "scope", SCOPES)
    if scope is None:
        raise InvalidParameter("scope", f"is required: one of {', '.join(SCOPES)}", "required")
    for of_scope, name in _NAMED_BY.items():
        if of_scope is not scope and sole(request, name) is not None:
            raise InvalidParameter(name, f"does not go with scope {scope}")
    if scope is Scope.ACCOUNT and sole(request, "account_id") is None:
        raise InvalidParameter("account_id", f"is required with scope {scope}", "required")
    return place_at(request, scope)


def _place_of_list(request: AnyRequest) -> Place:
    if uuid_of(request, "account_id") is not None:
        if sole(request, "api_key_id") is not None:
            raise InvalidParameter("api_key_id", "does not go with account_id")
        return place_at(request, Scope.ACCOUNT)
    return place_at(request, Scope.ORGANIZATION if sole(request, "api_key_id") is None else Scope.KEY)


def _body(heartbeat: Heartbeat) -> HeartbeatBody:
    principal_type, principal_id = heartbeat.principal
    return body_from(
        HeartbeatBody,
        heartbeat,
        heartbeat.terms,
        heartbeat.address,
        principal_type=principal_type,
        principal_id=principal_id,
    )
