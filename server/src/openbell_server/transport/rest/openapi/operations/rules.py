"""OpenAPI rows of rules and switches."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.controls.rules import SwitchState
from openbell_server.transport.rest.controls.rule_bodies import (
    RuleBody,
    RuleChangeBody,
    RuleChangePageBody,
    RuleListBody,
    RuleRequest,
    SwitchBody,
    SwitchListBody,
    SwitchRequest,
    TermsBody,
)
from openbell_server.transport.rest.controls.rules import CHANGED_CODES
from openbell_server.transport.rest.openapi.operation import (
    ETAG,
    IF_MATCH,
    LIMIT,
    NEXT_CURSOR,
    SYMBOL_PATTERN,
    Described,
    Parameter,
)

_NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
_EVENING: Final = datetime(2036, 1, 5, 21, tzinfo=UTC)
_ACCOUNT: Final = UUID("01981d3c-7a00-7000-8000-000000000002")
_ORGANIZATION: Final = UUID("01981d3c-7a00-7000-8000-000000000001")
_KEY: Final = UUID("01981d3c-7a00-7000-8000-000000000007")
_SCOPES: Final = [scope for scope in Scope if scope is not Scope.PLATFORM]
_FILTERS: Final = (
    Parameter(
        name="scope",
        description="Only this scope. Without it: every scope.",
        schema={"type": "string", "enum": _SCOPES},
        example="ACCOUNT",
    ),
    Parameter(
        name="account_id",
        description="Only this account and its symbols.",
        schema={"type": "string", "format": "uuid"},
        example=str(_ACCOUNT),
    ),
    Parameter(
        name="symbol",
        description="Only this symbol of the account, in any spelling that its broker accepts.",
        schema={"type": "string", "pattern": SYMBOL_PATTERN},
        example="AAPL",
    ),
    Parameter(
        name="api_key_id",
        description="Only this API key.",
        schema={"type": "string", "format": "uuid"},
        example=str(_KEY),
    ),
)
_PLACE: Final = (
    replace(_FILTERS[0], description="Where: ORGANIZATION, ACCOUNT, SYMBOL or KEY.", required=True),
    replace(_FILTERS[1], description="The account; required with the scopes ACCOUNT and SYMBOL, and only there."),
    replace(
        _FILTERS[2],
        description="The symbol, in any spelling that its broker accepts; required with the scope SYMBOL, and only "
        "there.",
    ),
    replace(_FILTERS[3], description="The id of the API key; required with the scope KEY, and only there."),
)
# Without the scope.
PLACE_FILTERS: Final = _FILTERS[1:]
_REASON: Final = Parameter(
    name="reason",
    description="The reason for the removal, for the history.",
    schema={"type": "string", "minLength": 1, "maxLength": 500, "format": "printable"},
    example="no longer needed",
)
_CODE: Final = Parameter(
    name="code",
    description="Only rules of this code; SWITCH for switches.",
    schema={"type": "string", "enum": [*CHANGED_CODES]},
    example="QTY_MAX",
)
_TERMS: Final = TermsBody(mode=Mode.HARD, parameters={"quantity": "500"})
_OVERRIDE: Final = TermsBody(mode=Mode.HARD, parameters={"quantity": "2000"}, expires_at=_EVENING)
_MEANS: Final = (
    "All applicable rules of every scope are evaluated, so the strictest one decides. A change is in force once you "
    "receive the response: afterwards no command is accepted and no door opens under the earlier terms."
)
_LOOSENS: Final = (
    "An API key can tighten; a change that loosens needs an admin, or a key with the permission control:loosen."
)


_OF_ACCOUNT: Final = (
    "ORGANIZATION and KEY take an admin; ACCOUNT and SYMBOL also a key with a permission to edit controls."
)
_RULE: Final = RuleBody(
    organization_id=_ORGANIZATION,
    scope=Scope.ACCOUNT,
    account_id=_ACCOUNT,
    code="QTY_MAX",
    in_force=_OVERRIDE,
    version=2,
    created_at=_NOON,
    updated_at=_NOON,
    principal_type="USER",
    principal_id="user_01H0000000000000000000",
    terms=_TERMS,
    override=_OVERRIDE,
    reason="a large rebalance today",
)
_SWITCH: Final = SwitchBody(
    organization_id=_ORGANIZATION,
    scope=Scope.ACCOUNT,
    account_id=_ACCOUNT,
    status=SwitchState.HALTED,
    cancel_working=True,
    version=3,
    reason="a runaway strategy",
    created_at=_NOON,
    updated_at=_NOON,
    principal_type="USER",
    principal_id="user_01H0000000000000000000",
)
_CHANGE: Final = RuleChangeBody(
    organization_id=_ORGANIZATION,
    scope=Scope.ACCOUNT,
    account_id=_ACCOUNT,
    code=_RULE.code,
    version=2,
    changed_at=_NOON,
    principal_type=_RULE.principal_type,
    principal_id=_RULE.principal_id,
    after=_RULE,
    reason="a large rebalance today",
)
_CURSOR: Final = "AAAAAAAAACpTb3B1YmJsaWNfa2V"
_READS: Final = (
    Described(
        path="/v1/controls/rules",
        operation_id="listRules",
        summary="List rules",
        description="The rules of the organization, of one scope, or of one account, symbol or key, with the terms in "
        "force and their expiry, in the order in which they were first set. Switches are not included.",
        operation=Operation.READ_CONTROLS,
        answer_example=RuleListBody([_RULE], None, _CURSOR),
        parameters=(*_FILTERS, NEXT_CURSOR, LIMIT),
        codes=("not_found",),
    ),
    Described(
        path="/v1/controls/rules/{code}",
        operation_id="showRule",
        summary="Read a rule",
        description="The rule, or 404 if none is set there. An expired override is not shown.",
        operation=Operation.READ_CONTROLS,
        answer_example=_RULE,
        answer_headers={"ETag": ETAG},
        parameters=_PLACE,
        codes=("not_found",),
    ),
    Described(
        path="/v1/controls/switches",
        operation_id="listSwitches",
        summary="List switches",
        description="The switches that were ever set, in that order: what is halted, and where. If the query names one "
        "place with its scope, exactly one switch, ACTIVE at version 0 if it was never set. A wider scope may be "
        "stricter.",
        operation=Operation.READ_CONTROLS,
        answer_example=SwitchListBody([_SWITCH], None, _CURSOR),
        parameters=(*_FILTERS, NEXT_CURSOR, LIMIT),
        codes=("not_found",),
    ),
    Described(
        path="/v1/controls/changes",
        operation_id="listControlChanges",
        summary="List changes of rules and switches",
        description="All changes of the organization, of one scope, or of one account, symbol or key, newest first: "
        "who, when, why, and the values before and after. Versions are never reused, also if a rule is removed and set "
        "again.",
        operation=Operation.READ_CONTROLS,
        answer_example=RuleChangePageBody([_CHANGE], None, _CURSOR),
        parameters=(*_FILTERS, _CODE, NEXT_CURSOR, LIMIT),
        codes=("not_found",),
    ),
)
_WRITES: Final = (
    Described(
        method="PUT",
        path="/v1/controls/rules/{code}",
        operation_id="putRule",
        summary="Set a rule",
        description="Sets permanent terms, which ends an override; with expires_at it sets an override until then. In "
        f"mode SHADOW a rule refuses nothing; the receipt shows its result. {_OF_ACCOUNT} {_LOOSENS} {_MEANS}",
        operation=Operation.EDIT_CONTROLS,
        body=RuleRequest,
        body_examples={
            "for good": {"mode": "HARD", "parameters": {"quantity": "500"}, "reason": "fat fingers"},
            "for a time": {
                "mode": "HARD",
                "parameters": {"quantity": "2000"},
                "expires_at": "2036-01-05T21:00:00Z",
                "reason": "a large rebalance today",
            },
        },
        answer_example=_RULE,
        answer_headers={"ETag": ETAG},
        parameters=(*_PLACE, IF_MATCH),
        codes=("organization_disabled",),
    ),
    Described(
        method="DELETE",
        path="/v1/controls/rules/{code}",
        operation_id="deleteRule",
        summary="Remove a rule",
        description=f"Also removes its override. The history stays. {_OF_ACCOUNT} {_LOOSENS}",
        operation=Operation.EDIT_CONTROLS,
        status=204,
        parameters=(*_PLACE, IF_MATCH, _REASON),
        codes=("organization_disabled",),
    ),
    Described(
        method="PUT",
        path="/v1/controls/switches",
        operation_id="putSwitch",
        summary="Halt trading, or resume it",
        description="HALTED refuses new orders and changes that raise risk; REDUCE_ONLY refuses what does not reduce a "
        "position; CANCEL is never refused. cancel_working requests a cancel of every working order. "
        f"{_OF_ACCOUNT} {_LOOSENS} {_MEANS}",
        operation=Operation.EDIT_CONTROLS,
        body=SwitchRequest,
        body_examples={
            "halt": {"status": "HALTED", "cancel_working": True, "reason": "a runaway strategy"},
            "go on": {"status": "ACTIVE", "reason": "the strategy is fixed"},
        },
        answer_example=_SWITCH,
        answer_headers={"ETag": ETAG},
        parameters=(*_PLACE, IF_MATCH),
        codes=("organization_disabled",),
    ),
)
RULE_OPERATIONS: Final = (*_READS, *_WRITES)
