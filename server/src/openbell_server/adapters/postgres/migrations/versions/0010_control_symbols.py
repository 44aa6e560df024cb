"""Runs 0010_control_symbols.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0010_control_symbols"
down_revision: str | None = "0009_know_callers"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
