"""Runs 0019_read_audit_log.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0019_read_audit_log"
down_revision: str | None = "0018_show_sessions"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
