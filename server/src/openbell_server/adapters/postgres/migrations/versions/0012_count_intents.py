"""Runs 0012_count_intents.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0012_count_intents"
down_revision: str | None = "0011_replace_orders"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
