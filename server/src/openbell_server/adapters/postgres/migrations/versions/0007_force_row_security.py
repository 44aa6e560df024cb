"""Runs 0007_force_row_security.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0007_force_row_security"
down_revision: str | None = "0006_recover_after_restore"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
