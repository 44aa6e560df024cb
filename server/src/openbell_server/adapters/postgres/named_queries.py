"""Loads the named statements of a .sql file that lies beside the store that runs them."""

from pathlib import Path
from typing import Any

import aiosql


def load(name: str) -> Any:  # noqa: ANN401 - aiosql makes methods at run time; each store states the types of its own
    """The statements of `<name>.sql`, as methods that take a connection."""
    return aiosql.from_path(Path(__file__).with_name(f"{name}.sql"), "asyncpg")
