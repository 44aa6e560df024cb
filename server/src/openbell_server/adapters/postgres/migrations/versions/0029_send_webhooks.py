"""Runs 0029_send_webhooks.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0029_send_webhooks"
down_revision: str | None = "0028_retain_events"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
