"""The authorization table, and the functions that decide by it."""

import contextlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

from openbell_server.domain.access.accounts import CONTROLS_PREMIUM, Environment, TradingAccount
from openbell_server.domain.access.principals import (
    ACCOUNT_EDIT,
    ACCOUNT_READ,
    CONTROL_EDITS,
    CONTROL_LOOSEN,
    CONTROL_READ,
    CREDENTIAL_EDIT,
    CREDENTIAL_READ,
    EVENT_READ,
    INTENT_EDIT,
    INTENT_READ,
    REFERENCE_EDIT,
    WEBHOOK_EDIT,
    WEBHOOK_READ,
    Caller,
    Principal,
    PrincipalKind,
    Role,
)
from openbell_server.domain.errors import FieldProblem, Problem
from openbell_server.domain.identifiers import AccountId, OrganizationId


class Operation(StrEnum):
    """What callers can do."""

    SUBMIT_INTENT = "submit_intent"
    CANCEL_ORDERS = "cancel_orders"
    SUBMIT_DESK_COMMAND = "submit_desk_command"
    READ_INTENTS = "read_intents"
    FOLLOW_EVENTS = "follow_events"
    EDIT_CONTROLS = "edit_controls"
    # Controls of the organization itself and of its keys.
    EDIT_ORGANIZATION_CONTROLS = "edit_organization_controls"
    # A key for itself, an admin for any key.
    PROMISE_HEARTBEATS = "promise_heartbeats"
    READ_CONTROLS = "read_controls"
    EDIT_REFERENCES = "edit_references"
    READ_ME = "read_me"
    READ_BROKERS = "read_brokers"
    READ_CALENDARS = "read_calendars"
    READ_CONTROL_KINDS = "read_control_kinds"
    READ_ACCOUNTS = "read_accounts"
    EDIT_ACCOUNTS = "edit_accounts"
    READ_CREDENTIALS = "read_credentials"
    EDIT_CREDENTIALS = "edit_credentials"
    READ_WEBHOOKS = "read_webhooks"
    MANAGE_WEBHOOKS = "manage_webhooks"
    MANAGE_KEYS = "manage_keys"
    READ_AUDIT_LOG = "read_audit_log"
    VALIDATE_KEY = "validate_key"
    LOOK_UP_ORGANIZATION = "look_up_organization"
    DELETE_ME = "delete_me"
    READ_OUTBOX = "read_outbox"
    READ_OPERATIONS = "read_operations"


_ANY: Final[frozenset[str]] = frozenset()
_ANY_USER: Final[frozenset[Role]] = frozenset()
_ANY_ROLE: Final = frozenset(Role)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Who may do it: None refuses the kind of caller, an empty set admits all of that kind."""

    permissions: frozenset[str] | None = None
    roles: frozenset[Role] | None = None
    scopes: frozenset[str] | None = None
    # Whether it concerns one organization, which a service account names in a header.
    scoped: bool = True
    # Whether users must belong to one of the operator's own organizations.
    internal: bool = False
    entitlement: str | None = None
    # The error code for a caller of the wrong kind, and for a user without organization (None: admitted).
    wrong_kind_error: str = "principal_kind_not_allowed"
    no_organization_error: str | None = "organization_required"


_EVERYBODY: Final = Rule(permissions=_ANY, roles=_ANY_USER, scopes=_ANY, scoped=False, no_organization_error=None)
RULES: Final = {
    Operation.SUBMIT_INTENT: Rule(permissions=frozenset({INTENT_EDIT})),
    # Of users; keys submit CANCEL.
    Operation.CANCEL_ORDERS: Rule(roles=frozenset({Role.ADMIN, Role.MEMBER})),
    # It can also place an order, but only one that closes a position.
    Operation.SUBMIT_DESK_COMMAND: Rule(
        permissions=frozenset({INTENT_EDIT}), roles=frozenset({Role.ADMIN, Role.MEMBER})
    ),
    Operation.READ_INTENTS: Rule(
        permissions=frozenset({INTENT_READ}), roles=_ANY_ROLE, scopes=frozenset({INTENT_READ})
    ),
    Operation.FOLLOW_EVENTS: Rule(
        permissions=frozenset({EVENT_READ, INTENT_READ}), roles=_ANY_ROLE, scopes=frozenset({EVENT_READ})
    ),
    Operation.EDIT_CONTROLS: Rule(
        permissions=frozenset(CONTROL_EDITS.values()), roles=frozenset({Role.ADMIN}), entitlement=CONTROLS_PREMIUM
    ),
    Operation.EDIT_ORGANIZATION_CONTROLS: Rule(roles=frozenset({Role.ADMIN}), entitlement=CONTROLS_PREMIUM),
    Operation.PROMISE_HEARTBEATS: Rule(
        permissions=frozenset({INTENT_EDIT}), roles=frozenset({Role.ADMIN}), entitlement=CONTROLS_PREMIUM
    ),
    Operation.READ_CONTROLS: Rule(
        permissions=frozenset({CONTROL_READ}),
        roles=_ANY_ROLE,
        scopes=frozenset({CONTROL_READ}),
        entitlement=CONTROLS_PREMIUM,
    ),
    Operation.EDIT_REFERENCES: Rule(roles=frozenset({Role.ADMIN}), scopes=frozenset({REFERENCE_EDIT})),
    Operation.READ_ME: _EVERYBODY,
    Operation.READ_BROKERS: _EVERYBODY,
    Operation.READ_CALENDARS: _EVERYBODY,
    Operation.READ_CONTROL_KINDS: _EVERYBODY,
    Operation.READ_ACCOUNTS: Rule(
        permissions=frozenset({ACCOUNT_READ}), roles=_ANY_ROLE, scopes=frozenset({ACCOUNT_READ})
    ),
    Operation.EDIT_ACCOUNTS: Rule(permissions=frozenset({ACCOUNT_EDIT}), roles=frozenset({Role.ADMIN})),
    Operation.READ_CREDENTIALS: Rule(
        permissions=frozenset({ACCOUNT_READ}), roles=_ANY_ROLE, scopes=frozenset({CREDENTIAL_READ})
    ),
    Operation.EDIT_CREDENTIALS: Rule(permissions=frozenset({CREDENTIAL_EDIT}), roles=frozenset({Role.ADMIN})),
    Operation.READ_WEBHOOKS: Rule(
        permissions=frozenset({WEBHOOK_READ, WEBHOOK_EDIT}), roles=_ANY_ROLE, scopes=frozenset({WEBHOOK_READ})
    ),
    Operation.MANAGE_WEBHOOKS: Rule(permissions=frozenset({WEBHOOK_EDIT}), roles=frozenset({Role.ADMIN})),
    Operation.MANAGE_KEYS: Rule(roles=frozenset({Role.ADMIN})),
    Operation.READ_AUDIT_LOG: Rule(roles=frozenset({Role.ADMIN})),
    Operation.VALIDATE_KEY: Rule(permissions=_ANY, scopes=_ANY, scoped=False),
    Operation.LOOK_UP_ORGANIZATION: Rule(roles=_ANY_USER, scopes=_ANY, scoped=False, no_organization_error=None),
    Operation.DELETE_ME: Rule(
        roles=_ANY_USER, scoped=False, wrong_kind_error="unauthenticated", no_organization_error="unauthenticated"
    ),
    Operation.READ_OUTBOX: Rule(
        roles=frozenset({Role.ADMIN}),
        scopes=frozenset({CREDENTIAL_READ}),
        scoped=False,
        internal=True,
        wrong_kind_error="unauthenticated",
        no_organization_error="unauthenticated",
    ),
    Operation.READ_OPERATIONS: Rule(
        roles=frozenset({Role.ADMIN}), scopes=frozenset({CREDENTIAL_READ}), scoped=False, internal=True
    ),
}


NOT_OWN_ORDER: Final = "the key has own_orders_only, and another caller created this intent"


def require(caller: Caller, operation: Operation) -> None:
    """Raises Problem unless the caller's kind, role, permissions or scopes suffice."""
    rule = RULES[operation]
    match caller.kind:
        case PrincipalKind.API_KEY:
            _require_one(rule, rule.permissions, caller.permissions, "permission")
        case PrincipalKind.SERVICE:
            _require_one(rule, rule.scopes, caller.permissions, "scope")
        case PrincipalKind.USER:
            _require_user(rule, caller)
        case PrincipalKind.SYSTEM | PrincipalKind.OPERATOR:
            raise Problem(rule.wrong_kind_error, "no credential can act as the platform itself")


def allowed_operations(caller: Caller) -> list[Operation]:
    """What the caller may do; an account, an entitlement or a limit that loosens may still refuse it."""
    allowed = []
    for operation in Operation:
        with contextlib.suppress(Problem):
            require(caller, operation)
            allowed.append(operation)
    return allowed


def _require_one(rule: Rule, needed: frozenset[str] | None, held: frozenset[str], what: str) -> None:
    if needed is None:
        # For hidden operations the response does not reveal who may use them.
        if rule.roles and rule.wrong_kind_error != "unauthenticated":
            raise Problem(
                rule.wrong_kind_error, f"this takes a user's token with the role {' or '.join(sorted(rule.roles))}"
            )
        raise Problem(rule.wrong_kind_error, "this kind of caller may not do this")
    if needed and held.isdisjoint(needed):
        raise Problem("permission_denied", f"this needs the {what} {' or '.join(sorted(needed))}")


def _require_user(rule: Rule, caller: Caller) -> None:
    if rule.roles is None:
        raise Problem(rule.wrong_kind_error, "users may not do this")
    if caller.external_organization_id is None and rule.no_organization_error is not None:
        raise Problem(rule.no_organization_error, "the token names no organization")
    if rule.internal and not caller.internal:
        raise Problem("permission_denied", "this is for the operator's own organizations")
    if rule.roles and caller.role not in rule.roles:
        raise Problem("permission_denied", f"this needs the role {' or '.join(sorted(rule.roles))}")
    if caller.organization_id is None and rule.no_organization_error is not None:
        raise Problem(rule.no_organization_error, "the token's organization is not known here")


def admit(caller: Caller, operation: Operation, organization_header: str | None) -> Principal:
    """The caller as a principal of its organization; raises Problem."""
    assert RULES[operation].scoped, f"{operation} is about no organization"
    require(caller, operation)
    organization_id = caller.organization_id
    if caller.kind is PrincipalKind.SERVICE:
        organization_id = _named(organization_header)
    else:
        require_own(organization_id, organization_header)
    assert organization_id is not None
    return Principal(
        kind=caller.kind,
        id=caller.id,
        organization_id=organization_id,
        environment=caller.environment,
        permissions=caller.permissions,
        own_orders_only=caller.own_orders_only,
        account_ids=caller.account_ids,
    )


def require_own(organization_id: OrganizationId | None, organization_header: str | None) -> None:
    """Raises Problem if the header names another organization; only service accounts may choose one."""
    if organization_header is not None and organization_header.lower() != str(organization_id):
        raise Problem("organization_mismatch", "x-organization-id names another organization than the credential")


def _named(organization_header: str | None) -> OrganizationId:
    message = "must be the UUID of the organization that the service account acts for"
    try:
        named = UUID(organization_header or "")
    except ValueError:
        named = None
    if named is None or str(named) != (organization_header or "").lower():
        raise Problem(
            "invalid_header",
            f"x-organization-id {message}",
            (FieldProblem("/headers/x-organization-id", "invalid", message),),
        )
    return OrganizationId(named)


def require_loosening(principal: Principal, why: str) -> None:
    """Raises Problem unless the caller may loosen: admins, operators, and keys to which an admin gave the permission.

    `why` states what loosens. Operations that change something admit no other users than admins.
    """
    is_key = principal.kind in (PrincipalKind.API_KEY, PrincipalKind.SERVICE)
    if is_key and CONTROL_LOOSEN not in principal.permissions:
        raise Problem(
            "permission_denied",
            f"this loosens a limit ({why}); it takes an admin, or a key with the permission {CONTROL_LOOSEN}",
        )


def require_own_order(principal: Principal, creator: tuple[str, str]) -> None:
    """Raises Problem if the caller is a key for its own orders only, and another principal created the intent."""
    if principal.own_orders_only and creator != (principal.kind, principal.id):
        raise Problem("permission_denied", NOT_OWN_ORDER)


def require_environment(principal: Principal, environment: Environment) -> None:
    """Raises Problem for a key of the other environment."""
    if principal.environment is not None and principal.environment is not environment:
        raise Problem(
            "environment_mismatch",
            f"the key is for {principal.environment} accounts, this account is {environment}",
        )


def require_listed(principal: Principal, account_id: AccountId) -> None:
    """Raises the Problem of an account that does not exist, for a key that is limited to other accounts."""
    if principal.account_ids is not None and account_id not in principal.account_ids:
        raise Problem("not_found", "there is no such account")


def admit_to_account(principal: Principal, operation: Operation, account: TradingAccount) -> None:
    """Raises Problem for a key of other accounts or another environment, or without the operation's entitlement."""
    require_listed(principal, account.id)
    environment, rule = account.environment, RULES[operation]
    require_environment(principal, environment)
    if operation is Operation.EDIT_CONTROLS and principal.kind is PrincipalKind.API_KEY:
        _require_one(rule, frozenset({CONTROL_EDITS[environment]}), principal.permissions, "permission")
    require_entitlement(operation, account.entitlements)


def require_entitlement(operation: Operation, entitlements: frozenset[str]) -> None:
    """Raises Problem if the organization lacks the operation's entitlement."""
    entitlement = RULES[operation].entitlement
    if entitlement is not None and entitlement not in entitlements:
        raise Problem("entitlement_required", f"this needs the entitlement {entitlement}")
