"""Runs 0013_queue_changes.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0013_queue_changes"
down_revision: str | None = "0012_count_intents"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
