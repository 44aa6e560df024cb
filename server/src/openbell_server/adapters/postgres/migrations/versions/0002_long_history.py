"""Runs 0002_long_history.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0002_long_history"
down_revision: str | None = "0001_baseline"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
