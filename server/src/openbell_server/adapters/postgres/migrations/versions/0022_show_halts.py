"""Runs 0022_show_halts.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0022_show_halts"
down_revision: str | None = "0021_settle_by_hand"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
