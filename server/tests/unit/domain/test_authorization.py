"""The decision function at its edges; the whole table is compared with one written by hand elsewhere."""

from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.authorization import RULES, Operation, admit, require, require_listed
from openbell_server.domain.access.principals import Caller, PrincipalKind, Role
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId, OrganizationId

OURS = OrganizationId(UUID("0190a000-0000-7000-8000-0000000000aa"))
USER = Caller(
    kind=PrincipalKind.USER,
    id="u",
    organization_id=OURS,
    external_organization_id="org_1",
    provider="dev",
    role=Role.MEMBER,
)
SERVICE = Caller(kind=PrincipalKind.SERVICE, id="s", permissions=frozenset({"intent:read"}))
KEY = Caller(
    kind=PrincipalKind.API_KEY,
    id="k",
    organization_id=OURS,
    environment=Environment.PAPER,
    permissions=frozenset({"intent:read"}),
)


def refusal(caller: Caller, operation: Operation, header: str | None = None) -> str:
    with pytest.raises(Problem) as refused:
        admit(caller, operation, header) if RULES[operation].scoped else require(caller, operation)
    return refused.value.code


def test_every_operation_has_a_rule() -> None:
    assert set(RULES) == set(Operation)


def test_a_service_account_acts_in_the_organization_it_names() -> None:
    named = uuid4()
    assert admit(SERVICE, Operation.READ_INTENTS, str(named)).organization_id == named


@pytest.mark.parametrize("header", [None, "", "x", str(OURS) + "0", f"{{{OURS}}}", f"{OURS}, {OURS}", OURS.hex])
def test_a_service_account_that_names_no_organization_is_told_which_header_is_missing(header: str | None) -> None:
    assert refusal(SERVICE, Operation.READ_INTENTS, header) == "invalid_header"


@pytest.mark.parametrize("caller", [USER, KEY], ids=["user", "key"])
def test_others_may_name_their_own_organization_and_no_other(caller: Caller) -> None:
    assert admit(caller, Operation.READ_INTENTS, str(OURS)).organization_id == OURS
    assert refusal(caller, Operation.READ_INTENTS, str(uuid4())) == "organization_mismatch"
    assert refusal(caller, Operation.READ_INTENTS, "") == "organization_mismatch"


def test_a_missing_scope_answers_before_a_missing_header() -> None:
    assert refusal(replace(SERVICE, permissions=frozenset()), Operation.READ_INTENTS) == "permission_denied"


def test_a_user_without_organization_is_told_so() -> None:
    without_organization = replace(USER, external_organization_id=None, organization_id=None)
    assert refusal(without_organization, Operation.READ_INTENTS) == "organization_required"
    assert refusal(without_organization, Operation.DELETE_ME) == "unauthenticated"
    assert refusal(without_organization, Operation.READ_OUTBOX) == "unauthenticated"
    require(without_organization, Operation.LOOK_UP_ORGANIZATION)


def test_a_user_of_an_organization_that_is_not_known_here_is_refused_everything_of_one() -> None:
    other_organization = replace(USER, organization_id=None, role=Role.ADMIN)
    assert refusal(other_organization, Operation.READ_INTENTS) == "organization_required"
    assert refusal(other_organization, Operation.READ_OUTBOX) == "permission_denied"


def test_a_user_without_a_role_may_not_read() -> None:
    assert refusal(replace(USER, role=None), Operation.READ_INTENTS) == "permission_denied"


@pytest.mark.parametrize(
    ("operation", "of_a_key"),
    [(Operation.READ_OUTBOX, "unauthenticated"), (Operation.READ_OPERATIONS, "principal_kind_not_allowed")],
)
def test_the_queues_are_for_admins_of_internal_organizations(operation: Operation, of_a_key: str) -> None:
    admin = replace(USER, role=Role.ADMIN)
    assert refusal(admin, operation) == "permission_denied"
    assert refusal(replace(USER, internal=True), operation) == "permission_denied"
    require(replace(admin, internal=True), operation)
    assert refusal(KEY, operation) == of_a_key


def test_other_accounts_do_not_exist_for_a_key_that_is_limited() -> None:
    ours, other = AccountId(uuid4()), AccountId(uuid4())
    limited = admit(replace(KEY, account_ids=frozenset({ours})), Operation.READ_INTENTS, None)
    require_listed(limited, ours)
    with pytest.raises(Problem, match="there is no such account") as refused:
        require_listed(limited, other)
    assert refused.value.code == "not_found"
    require_listed(admit(KEY, Operation.READ_INTENTS, None), other)
