"""Runs 0031_list_executions.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0031_list_executions"
down_revision: str | None = "0029_send_webhooks"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
