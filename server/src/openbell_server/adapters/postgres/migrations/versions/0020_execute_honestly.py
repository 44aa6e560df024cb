"""Runs 0020_execute_honestly.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0020_execute_honestly"
down_revision: str | None = "0019_read_audit_log"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
