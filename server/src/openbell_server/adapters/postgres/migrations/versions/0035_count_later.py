"""Runs 0035_count_later.sql."""

from openbell_server.adapters.postgres.migrate import run_parts_beside

revision = "0035_count_later"
down_revision: str | None = "0034_look_up_by_key"


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_parts_beside(__file__)
