"""Runs 0014_keep_queues.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0014_keep_queues"
down_revision: str | None = "0013_queue_changes"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
