"""Runs 0005_create_roles.sql."""

from openbell_server.adapters.postgres.migrate import run_sql_beside

revision = "0005_create_roles"
down_revision: str | None = "0004_create_slot_leases"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_sql_beside(__file__)
