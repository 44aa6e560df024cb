"""OpenAPI rows of rules and switches, for every scope."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from msgspec import UNSET
from msgspec.structs import replace

from openbell_server.application.controls.set_rules import Place
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.controls.rules import SwitchState
from openbell_server.transport.rest.controls.rule_bodies import (
    AddressBody,
    RuleBody,
    RuleChangeBody,
    RuleChangePageBody,
    RuleListBody,
    RuleRequest,
    SwitchBody,
    SwitchRequest,
    TermsBody,
)
from openbell_server.transport.rest.openapi.operation import ETAG, IF_MATCH, LIMIT, NEXT_CURSOR, Described, Parameter

_NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
_EVENING: Final = datetime(2036, 1, 5, 21, tzinfo=UTC)
_ACCOUNT: Final = UUID("01981d3c-7a00-7000-8000-000000000002")
_ORGANIZATION: Final = UUID("01981d3c-7a00-7000-8000-000000000001")
_KEY: Final = UUID("01981d3c-7a00-7000-8000-000000000007")
_OF: Final = {
    Scope.ORGANIZATION: (
        "Organization",
        "/v1/controls/organization",
        "the organization",
        AddressBody(organization_id=_ORGANIZATION, scope=Scope.ORGANIZATION),
    ),
    Scope.ACCOUNT: (
        "Account",
        "/v1/controls/accounts/{account_id}",
        "an account",
        AddressBody(organization_id=_ORGANIZATION, scope=Scope.ACCOUNT, account_id=_ACCOUNT),
    ),
    Scope.SYMBOL: (
        "Symbol",
        "/v1/controls/accounts/{account_id}/symbols/{symbol}",
        "a symbol on an account",
        AddressBody(organization_id=_ORGANIZATION, scope=Scope.SYMBOL, account_id=_ACCOUNT, symbol="AAPL"),
    ),
    Scope.KEY: (
        "Key",
        "/v1/controls/keys/{api_key_id}",
        "an API key",
        AddressBody(organization_id=_ORGANIZATION, scope=Scope.KEY, api_key_id=_KEY),
    ),
}
_REASON: Final = Parameter(
    name="reason",
    description="The reason for the removal, for the history.",
    schema={"type": "string", "minLength": 1, "maxLength": 500, "format": "printable"},
    example="no longer needed",
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


def _rule_example(address: AddressBody) -> RuleBody:
    return RuleBody(
        code="QTY_MAX",
        address=address,
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


def _switch_example(address: AddressBody) -> SwitchBody:
    return SwitchBody(
        address=address,
        status=SwitchState.HALTED,
        cancel_working=True,
        version=3,
        reason="a runaway strategy",
        created_at=_NOON,
        updated_at=_NOON,
        principal_type="USER",
        principal_id="user_01H0000000000000000000",
    )


def _reads(name: str, path: str, whose: str, address: AddressBody) -> Iterator[Described]:
    rule = _rule_example(address)
    yield Described(
        path=f"{path}/rules",
        operation_id=f"list{name}Rules",
        summary=f"List the rules of {whose}",
        description="All rules at this scope, by code, with the terms in force and their expiry. The switch is not "
        "included.",
        operation=Operation.READ_CONTROLS,
        answer_example=RuleListBody([rule]),
    )
    yield Described(
        path=f"{path}/rules/{{code}}",
        operation_id=f"show{name}Rule",
        summary=f"Read a rule of {whose}",
        description="The rule, or 404 if none is set. An expired override is not shown.",
        operation=Operation.READ_CONTROLS,
        answer_example=rule,
        answer_headers={"ETag": ETAG},
        codes=("not_found",),
    )
    yield Described(
        path=f"{path}/switch",
        operation_id=f"show{name}Switch",
        summary=f"Read the switch of {whose}",
        description="ACTIVE at version 0 if it was never set. A wider scope may be stricter.",
        operation=Operation.READ_CONTROLS,
        answer_example=_switch_example(address),
        answer_headers={"ETag": ETAG},
    )


def _histories(name: str, path: str, whose: str, address: AddressBody) -> Iterator[Described]:
    rule = _rule_example(address)
    first = replace(rule, in_force=_TERMS, override=UNSET, version=1, reason="fat fingers")
    who = (rule.principal_type, rule.principal_id)
    change = RuleChangeBody(rule.code, 2, _NOON, *who, before=first, after=rule, reason="a large rebalance today")
    for what, below in (("Rule", "/rules/{code}"), ("Switch", "/switch")):
        yield Described(
            path=f"{path}{below}/history",
            operation_id=f"list{name}{what}Changes",
            summary=f"Read the history of {'a rule' if what == 'Rule' else 'the switch'} of {whose}",
            description="All changes, newest first: who, when, why, and the values before and after. Versions are "
            "never reused, also if a rule is removed and set again.",
            operation=Operation.READ_CONTROLS,
            answer_example=RuleChangePageBody([change], None, "AAAAAAAAACpTb3B1YmJsaWNfa2V"),
            parameters=(NEXT_CURSOR, LIMIT),
            codes=("not_found",),
        )


def _writes(name: str, path: str, whose: str, address: AddressBody, edit: Operation) -> Iterator[Described]:
    yield Described(
        method="PUT",
        path=f"{path}/rules/{{code}}",
        operation_id=f"put{name}Rule",
        summary=f"Set a rule of {whose}",
        description="Sets permanent terms, which ends an override; with expires_at it sets an override until then. In "
        f"mode shadow a rule refuses nothing; the receipt shows its result. {_LOOSENS} {_MEANS}",
        operation=edit,
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
        answer_example=_rule_example(address),
        answer_headers={"ETag": ETAG},
        parameters=(IF_MATCH,),
        codes=("organization_disabled",),
    )
    yield Described(
        method="DELETE",
        path=f"{path}/rules/{{code}}",
        operation_id=f"delete{name}Rule",
        summary=f"Remove a rule of {whose}",
        description=f"Also removes its override. The history stays. {_LOOSENS}",
        operation=edit,
        status=204,
        parameters=(IF_MATCH, _REASON),
        codes=("organization_disabled",),
    )
    yield Described(
        method="PUT",
        path=f"{path}/switch",
        operation_id=f"put{name}Switch",
        summary=f"Halt {whose}, or resume it",
        description="HALTED refuses new orders and changes that raise risk; REDUCE_ONLY refuses what does not reduce a "
        "position; CANCEL is never refused. cancel_working requests a cancel of every working order. "
        f"{_LOOSENS} {_MEANS}",
        operation=edit,
        body=SwitchRequest,
        body_examples={
            "halt": {"status": "HALTED", "cancel_working": True, "reason": "a runaway strategy"},
            "go on": {"status": "ACTIVE", "reason": "the strategy is fixed"},
        },
        answer_example=_switch_example(address),
        answer_headers={"ETag": ETAG},
        parameters=(IF_MATCH,),
        codes=("organization_disabled",),
    )


RULE_OPERATIONS: Final = tuple(
    row for scope, of in _OF.items() for row in (*_reads(*of), *_histories(*of), *_writes(*of, Place(scope=scope).edit))
)
