"""OpenAPI rows of promised heartbeats."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.heartbeats import SCOPES, HeartbeatStatus
from openbell_server.transport.rest.controls.heartbeats import HeartbeatBody, HeartbeatListBody, HeartbeatRequest
from openbell_server.transport.rest.openapi.operation import LIMIT, NEXT_CURSOR, Described, Parameter

_KEY: Final = UUID("01981d3c-7a00-7000-8000-000000000007")
_FILTERS: Final = (
    Parameter(
        name="scope",
        description="Only this scope. Without it: both.",
        schema={"type": "string", "enum": list(SCOPES)},
        example="KEY",
    ),
    Parameter(
        name="account_id",
        description="Only this account.",
        schema={"type": "string", "format": "uuid"},
        example="01981d3c-7a00-7000-8000-000000000002",
    ),
    Parameter(
        name="api_key_id",
        description="Only this API key.",
        schema={"type": "string", "format": "uuid"},
        example=str(_KEY),
    ),
)
_PLACE: Final = (
    replace(_FILTERS[0], description="What is halted if a heartbeat is missed: KEY or ACCOUNT.", required=True),
    replace(_FILTERS[1], description="The account; required with the scope ACCOUNT, and only there."),
    replace(_FILTERS[2], description="The id of the API key, only with the scope KEY. Without it: the calling key."),
)
_HEARTBEAT: Final = HeartbeatBody(
    organization_id=UUID("01981d3c-7a00-7000-8000-000000000001"),
    scope=Scope.KEY,
    api_key_id=_KEY,
    status=HeartbeatStatus.ARMED,
    timeout_seconds=30,
    cancel_working=True,
    required=False,
    armed_at=datetime(2026, 1, 5, 12, tzinfo=UTC),
    last_beat_at=datetime(2026, 1, 5, 15, tzinfo=UTC),
    expires_at=datetime(2026, 1, 5, 15, 0, 30, tzinfo=UTC),
    principal_type="API_KEY",
    principal_id=str(_KEY),
)
_CALLERS: Final = (
    "Scope KEY: an API key with intent:edit for itself, an admin for any key. Scope ACCOUNT: an admin, or an API key "
    "with a permission to edit controls."
)
_LOOSENS: Final = (
    "A promise that somebody else than the key itself made is required: it takes an admin, or a key with the "
    "permission control:loosen, to"
)
HEARTBEAT_OPERATIONS: Final = (
    Described(
        path="/v1/controls/heartbeats",
        operation_id="listHeartbeats",
        summary="List promised heartbeats",
        description="The promises of the organization, of one scope, or of one account or key, in the order in which "
        "they were first armed; also those that were missed and not armed again.",
        operation=Operation.READ_CONTROLS,
        answer_example=HeartbeatListBody([_HEARTBEAT], None, "AAAAAAAAACpTb3B1YmJsaWNfa2V"),
        parameters=(*_FILTERS, NEXT_CURSOR, LIMIT),
        codes=("not_found",),
    ),
    Described(
        method="PUT",
        path="/v1/controls/heartbeats",
        operation_id="putHeartbeat",
        summary="Promise heartbeats, or send one",
        description="Arms the timer, or starts it again. If no further request comes within timeout_seconds by the "
        "database's clock, the switch of the scope is set to HALTED, until somebody lifts the halt. A request that "
        "comes too late returns 409 heartbeat_missed and starts nothing; once the halt is lifted, a request arms the "
        f"timer again. {_CALLERS} {_LOOSENS} lengthen its timeout or to drop cancel_working.",
        operation=Operation.PROMISE_HEARTBEATS,
        body=HeartbeatRequest,
        body_examples={"every 30 seconds": {"timeout_seconds": 30, "cancel_working": True}},
        answer_example=_HEARTBEAT,
        parameters=_PLACE,
        codes=("not_found", "organization_disabled", "heartbeat_missed", "concurrent_change"),
    ),
    Described(
        method="DELETE",
        path="/v1/controls/heartbeats",
        operation_id="deleteHeartbeat",
        summary="Disarm promised heartbeats",
        description="Ends the promise, for a program that stops on purpose. One that was missed before returns 409 "
        f"heartbeat_missed. {_CALLERS} {_LOOSENS} disarm it.",
        operation=Operation.PROMISE_HEARTBEATS,
        status=204,
        parameters=_PLACE,
        codes=("not_found", "organization_disabled", "heartbeat_missed"),
    ),
)
