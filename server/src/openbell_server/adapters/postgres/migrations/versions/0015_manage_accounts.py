"""Runs 0015_manage_accounts.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0015_manage_accounts"
down_revision: str | None = "0014_keep_queues"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
