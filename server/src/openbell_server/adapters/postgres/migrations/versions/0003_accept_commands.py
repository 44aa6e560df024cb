"""Runs 0003_accept_commands.sql."""

from openbell_server.adapters.postgres.migrate import run_sql_beside

revision = "0003_accept_commands"
down_revision: str | None = "0002_create_intents"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_sql_beside(__file__)
