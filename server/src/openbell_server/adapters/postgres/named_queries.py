"""Loads the named statements of a .sql file that lies beside the store that runs them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiosql


def load(name: str, words: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401 - each store states the types of its own
    """The statements of `<name>.sql`, as methods that take a connection; words in braces stand for what differs."""
    text = Path(__file__).with_name(f"{name}.sql").read_text()
    for word, meaning in (words or {}).items():
        text = text.replace("{" + word + "}", meaning)
    return aiosql.from_str(text, "asyncpg")
