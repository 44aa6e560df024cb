"""Runs 0017_keep_secrets.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0017_keep_secrets"
down_revision: str | None = "0016_keep_credentials"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
