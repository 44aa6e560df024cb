"""Runs 0006_recover_after_restore.sql."""

from openbell_server.adapters.postgres.migrate import run_sql_beside

revision = "0006_recover_after_restore"
down_revision: str | None = "0005_create_roles"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_sql_beside(__file__)
