"""Runs 0027_enact_halts.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0027_enact_halts"
down_revision: str | None = "0026_keep_calendars"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
