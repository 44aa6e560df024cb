"""Runs 0026_keep_calendars.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0026_keep_calendars"
down_revision: str | None = "0025_know_markets"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
