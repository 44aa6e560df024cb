"""Runs 0001_create_accounts.sql."""

from openbell_server.adapters.postgres.migrate import run_sql_beside

revision = "0001_create_accounts"
down_revision: str | None = None


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_sql_beside(__file__)
