"""Runs 0016_keep_credentials.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0016_keep_credentials"
down_revision: str | None = "0015_manage_accounts"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
