"""Faults in keeping organizations apart: row security, grants, where-clauses, transactions."""

from typing import Final

from proof.sabotages.fault import FunctionFault, SchemaFault, SourceFault

FAULTS: Final = (
    SourceFault(
        name="a transaction leaves the organization set on its connection",
        file="adapters/postgres/connection.py",
        old="'{named}', true)",
        new="'{named}', false)",
        tests=("integration/test_transactions.py::test_role_and_organization_end_with_a_commit",),
    ),
    SourceFault(
        name="events are read without their organization",
        file="adapters/postgres/events/events.sql",
        old="where e.organization_id = :organization_id and e.account_id = :account_id and e.event_no > :after",
        new="where :organization_id::uuid is not null and e.account_id = :account_id and e.event_no > :after",
        tests=(
            "integration/test_statement_organizations.py::test_without_row_security_no_statement_reaches_rows_of_another_organization",
        ),
    ),
    SchemaFault(
        name="row security shows the executions of every organization",
        sql="alter policy tenant on openbell.executions using (true)",
        tests=("integration/test_tenancy.py::test_the_catalogue_keeps_organizations_apart",),
    ),
    SchemaFault(
        name="tenants read sealed secrets",
        sql="grant select on openbell.vault_objects to openbell_tenant",
        tests=("integration/test_vault.py::test_no_other_role_reads_what_is_sealed",),
    ),
    FunctionFault(
        name="the accept step takes commands for an account of another organization",
        function="accept_create",
        old="where c.account_id = p_account_id and c.organization_id = p_organization_id",
        new="where c.account_id = p_account_id",
        tests=(
            (
                "integration/test_other_organizations.py"
                "::test_the_accept_step_answers_for_another_s_account_as_for_one_that_is_not_there"
            ),
        ),
    ),
)
