"""Runs 0023_limit_resting.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0023_limit_resting"
down_revision: str | None = "0022_show_halts"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
