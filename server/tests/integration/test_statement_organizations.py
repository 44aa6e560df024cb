"""Every statement names its organization by itself: the policies of row security are the second protection."""

import asyncpg

from support.tenancy.populated_tenant import ID_PARAMETERS, PopulatedTenant, fresh_values, values_of
from support.tenancy.statements import Owner, all_statements, run

# They insert a row of the organization that they name. Only row security compares the account, or the id that is taken.
INSERTS = {
    "accounts.open_account",
    "control_rules.save_rule",
    "heartbeats.add_heartbeat",
    "organizations.create_api_key",
    "webhooks.add_webhook",
}
# A row of the organization that it names, without an account.
OWN_ROWS = {"events.list_followed"}


async def test_without_row_security_no_statement_reaches_rows_of_another_organization(
    owner: Owner, us: PopulatedTenant, them: PopulatedTenant
) -> None:
    ours = {"organization_id": us.organization_id, "organization_ids": [us.organization_id]}
    theirs = await values_of(owner, them)
    aimed = [
        statement
        for statement in all_statements()
        if "organization_id" in statement.parameters and (ID_PARAMETERS - set(ours)) & set(statement.parameters)
    ]
    assert len(aimed) > 150
    reached = set()
    for statement in aimed:
        undone = owner.transaction()
        await undone.start()
        try:
            _, touched = await run(owner, statement, theirs | fresh_values(statement.name) | ours)
        except (asyncpg.ForeignKeyViolationError, asyncpg.UniqueViolationError):
            touched = 0
        await undone.rollback()
        if touched:
            reached.add(statement.name)
    assert reached == INSERTS | OWN_ROWS
