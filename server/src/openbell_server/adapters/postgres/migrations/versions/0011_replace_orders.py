"""Runs 0011_replace_orders.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0011_replace_orders"
down_revision: str | None = "0010_control_symbols"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
