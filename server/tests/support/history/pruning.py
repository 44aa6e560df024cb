"""Prunes what a test has just written."""

from typing import Any


async def prune_at_any_age(owner: Any) -> None:
    """Remove the floor of seven days, as the owner of the schema."""
    await owner.execute("alter table openbell.account_events disable trigger young_events")
