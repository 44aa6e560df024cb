"""Runs 0033_accept_faster.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0033_accept_faster"
down_revision: str | None = "0032_accept_one"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
