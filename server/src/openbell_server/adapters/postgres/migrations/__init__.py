"""The schema: a baseline with one `.sql` file per feature, and revisions that run the `.sql` file of the same name."""

from pathlib import Path
from typing import Final

# In the order in which they run: a file refers only to tables of files before it.
_FEATURES: Final = (
    "roles",
    "access",
    "intents",
    "controls",
    "execution",
    "executors",
    "events",
    "money",
    "operators",
    "console",
    "desk_commands",
    "statistics",
    "accept_create",
    "accept_commands",
    "work_tick",
)
FOLDER: Final = Path(__file__).parent
BASELINE: Final = tuple(FOLDER / "baseline" / f"{name}.sql" for name in _FEATURES)
# Every file of the schema in the order in which they run.
FILES: Final = (*BASELINE, *sorted((FOLDER / "versions").glob("*.sql")))
