"""Runs 0008_create_audit_log.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0008_create_audit_log"
down_revision: str | None = "0007_force_row_security"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
