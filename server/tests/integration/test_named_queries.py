"""Every named statement is one that the migrated schema can run."""

import pytest

from openbell_server.adapters.postgres.connection import Pool
from support.tenancy.statements import FILES, broken_statements, statements

# What belongs to the platform and to no tenant.
PLATFORM = {"broker_feeds", "connection", "console_sessions", "diagnostics", "slot_leases", "recovery", "schema"}


def test_every_store_s_statements_are_found() -> None:
    assert {"connection", "execution", "intents", "organizations", "outbox"} <= set(FILES)
    assert all(list(statements(name)) for name in FILES)


@pytest.mark.parametrize("name", FILES)
async def test_the_database_can_prepare_every_statement(pool: Pool, name: str) -> None:
    assert await broken_statements(pool, name) == []


# The accept step, whose rows name theirs; functions that take it; tables of the platform; locks: nobody's rows.
NAMES_NONE = {
    *(
        "execution.append_events",
        "account_changes.append_control_changed",
        "accept_with_counts.append_refusal",
        "losses.append_breaches",
        "stream_counts.lock_stream_counts",
    ),
    *("intents.accept_commands", "calendars.change_session", "calendars.session_changes"),
    *("control_rules.shut_doors", "control_rules.take_turn", "webhooks.lock_webhooks"),
    *("account_changes.wait_for_openings", "accounts.take_turn_to_open"),
}


@pytest.mark.parametrize("name", [name for name in FILES if name not in PLATFORM])
def test_a_statement_that_crosses_organizations_says_so_and_every_other_names_one(name: str) -> None:
    silent = [
        statement.name
        for statement in statements(name)
        if "organization_id" not in statement.sql.partition("where")[2] + statement.sql.partition("insert")[2]
        and not statement.name.endswith("_across_organizations")
        and statement.name not in NAMES_NONE
    ]
    assert silent == []
