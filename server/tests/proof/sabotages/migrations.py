"""Faults in migrations: locks, repeats, schemas that are too new."""

from typing import Final

from proof.sabotages.fault import SourceFault

FAULTS: Final = (
    SourceFault(
        name="a migration waits without limit for tables in use",
        file="adapters/postgres/migrate.py",
        old="""f"set local lock_timeout = '{LOCK_TIMEOUT}'; set""",
        new="""f"set local lock_timeout = 0; set""",
        tests=(
            "integration/test_migrations.py::test_a_migration_gives_way_to_those_who_use_its_tables_and_comes_back",
        ),
    ),
    SourceFault(
        name="two migrators run at the same time",
        file="adapters/postgres/migrations/env.py",
        old="        if is_ours:\n",
        new="        if is_ours is not None:\n",
        tests=("integration/test_migrations.py::test_migrators_at_once_wait_for_each_other",),
    ),
    SourceFault(
        name="a part of a revision fails when it runs twice",
        file="adapters/postgres/migrations/versions/0002_long_history.sql",
        old="drop function if exists prune_events;\n",
        new="",
        tests=(
            (
                "integration/test_migrations.py"
                "::test_a_migration_that_fails_leaves_the_revisions_before_it_and_its_parts_can_run_again"
            ),
        ),
    ),
    SourceFault(
        name="a process runs on a schema that is newer than its code",
        file="adapters/postgres/schema.py",
        old="if revision not in REVISIONS:",
        new="if revision < OLDEST:",
        tests=("integration/test_migrations.py::test_a_process_refuses_a_schema_it_does_not_know",),
    ),
)
