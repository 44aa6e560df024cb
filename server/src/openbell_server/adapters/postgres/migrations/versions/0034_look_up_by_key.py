"""Runs 0034_look_up_by_key.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0034_look_up_by_key"
down_revision: str | None = "0033_accept_faster"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
