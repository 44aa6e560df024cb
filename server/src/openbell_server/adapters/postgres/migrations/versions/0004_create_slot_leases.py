"""Runs 0004_create_slot_leases.sql."""

from openbell_server.adapters.postgres.migrate import run_sql_beside

revision = "0004_create_slot_leases"
down_revision: str | None = "0003_accept_commands"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_sql_beside(__file__)
