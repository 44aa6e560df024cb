"""Runs 0024_rule_every_scope.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0024_rule_every_scope"
down_revision: str | None = "0023_limit_resting"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
