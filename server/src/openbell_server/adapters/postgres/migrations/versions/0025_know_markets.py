"""Runs 0025_know_markets.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0025_know_markets"
down_revision: str | None = "0024_rule_every_scope"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
