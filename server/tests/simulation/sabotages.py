"""Deliberate mistakes, made in the running code: each must be caught by the checker, by the name of a bar."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def sabotaged(name: str) -> Iterator[None]:
    """The code with one mistake in it, while this lasts; without a name as it is."""
    assert not name
    yield
