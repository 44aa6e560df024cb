"""Runs 0009_know_callers.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0009_know_callers"
down_revision: str | None = "0008_create_audit_log"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
