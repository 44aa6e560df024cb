"""Runs 0002_create_intents.sql."""

from openbell_server.adapters.postgres.migrate import run_sql_beside

revision = "0002_create_intents"
down_revision: str | None = "0001_create_accounts"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_sql_beside(__file__)
