"""Runs 0028_retain_events.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0028_retain_events"
down_revision: str | None = "0027_enact_halts"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
