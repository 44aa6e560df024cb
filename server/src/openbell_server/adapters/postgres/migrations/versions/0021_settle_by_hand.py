"""Runs 0021_settle_by_hand.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0021_settle_by_hand"
down_revision: str | None = "0020_execute_honestly"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
