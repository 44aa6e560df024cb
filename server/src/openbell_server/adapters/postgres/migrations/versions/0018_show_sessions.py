"""Runs 0018_show_sessions.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0018_show_sessions"
down_revision: str | None = "0017_keep_secrets"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
