"""Faults in access control: keys, tokens, roles, environments."""

from typing import Final

from proof.sabotages.fault import SourceFault

FAULTS: Final = (
    SourceFault(
        name="a revoked API key is accepted",
        file="application/access/authenticate.py",
        old="            or key.revoked_at is not None\n",
        new="",
        tests=(
            "unit/application/test_authenticate.py::test_a_key_that_was_revoked_is_refused_before_a_second_has_passed",
        ),
    ),
    SourceFault(
        name="an expired access token is accepted",
        file="domain/access/access_tokens.py",
        old="if now >= expires + LEEWAY_SECONDS:",
        new="if now >= expires + 86_400:",
        tests=("unit/domain/test_access_tokens.py::test_what_is_just_outside_is_refused",),
    ),
    SourceFault(
        name="a member manages API keys",
        file="domain/access/authorization.py",
        old="Operation.MANAGE_KEYS: Rule(roles=frozenset({Role.ADMIN})),",
        new="Operation.MANAGE_KEYS: Rule(roles=_ANY_ROLE),",
        tests=("integration/rest/test_api_keys.py::test_nobody_but_an_admin_manages_keys",),
    ),
    SourceFault(
        name="a key uses accounts that it is not limited to",
        file="domain/access/authorization.py",
        old="if principal.account_ids is not None and account_id not in principal.account_ids:",
        new="if principal.account_ids == frozenset():",
        tests=("unit/domain/test_authorization.py::test_other_accounts_do_not_exist_for_a_key_that_is_limited",),
    ),
    SourceFault(
        name="a user names another organization than its own",
        file="domain/access/authorization.py",
        old="if organization_header is not None and organization_header.lower() != str(organization_id):",
        new="if organization_header is not None and organization_id is None:",
        tests=("unit/domain/test_authorization.py::test_others_may_name_their_own_organization_and_no_other",),
    ),
)
