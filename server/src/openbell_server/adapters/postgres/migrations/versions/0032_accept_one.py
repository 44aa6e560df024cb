"""Runs 0032_accept_one.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0032_accept_one"
down_revision: str | None = "0031_list_executions"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
