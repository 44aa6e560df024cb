"""Creates the whole schema from the files of the folder `baseline`, one per feature."""

from openbell_server.adapters.postgres.migrate import run_sql
from openbell_server.adapters.postgres.migrations import BASELINE

revision = "0001_baseline"
down_revision: str | None = None


def upgrade() -> None:
    """Forward only: there is no downgrade."""
    run_sql("\n".join(path.read_text() for path in BASELINE))
