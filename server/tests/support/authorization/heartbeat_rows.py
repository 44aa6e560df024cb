"""The rows of promised heartbeats in the authorization table."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.authorization.table import Object, Row


def heartbeat_rows(
    read: "Row", write: "Row", keys: tuple["Object", ...], no_object: tuple["Object", ...]
) -> Iterator["Row"]:
    """A key promises heartbeats for itself, and without naming itself; an admin for any key."""
    path = "/v1/controls/heartbeats"
    of_account, of_key = "scope=ACCOUNT&account_id={account_id}", "scope=KEY&api_key_id={api_key_id}"
    yield replace(read, name="list account heartbeats", route=f"GET {path}?{of_account}")
    yield replace(read, name="list key heartbeats", route=f"GET {path}?{of_key}", objects=keys)
    for method, success in (("PUT", 200), ("DELETE", 204)):
        name, write = method.lower(), replace(write, success=success)
        yield replace(write, name=f"{name} account heartbeat", route=f"{method} {path}?{of_account}")
        by_key = replace(write, api_key=frozenset({"intent:edit"}))
        yield replace(by_key, name=f"{name} key heartbeat", route=f"{method} {path}?{of_key}", objects=keys)
        yield replace(by_key, name=f"{name} own heartbeat", route=f"{method} {path}?scope=KEY", objects=no_object)
