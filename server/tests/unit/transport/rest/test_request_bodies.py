"""What a caller sends is not kept longer than it is needed."""

import gc
from typing import Any

from litestar import Litestar, Request, put
from litestar.testing import TestClient

from openbell_server.transport.rest.strict_json import json_body_of

SECRET = b'{"fields": {"secret": "plain text"}}'


def is_reachable(start: object, wanted: bytes) -> bool:
    """Whether an object leads to these bytes, over what it refers to."""
    seen: set[int] = set()
    left = [start]
    while left:
        each = left.pop()
        if each == wanted:
            return True
        if id(each) not in seen and not isinstance(each, type):
            seen.add(id(each))
            left += gc.get_referents(each) if type(each).__module__.startswith(("builtins", "litestar.utils")) else []
    return False


def test_a_body_that_was_read_is_not_kept_with_the_connection() -> None:
    @put("/")
    async def read(request: Request[Any, Any, Any]) -> dict[str, bool]:
        body = await json_body_of(request)
        return {"is_read": body == SECRET, "is_kept": is_reachable(dict(request.scope), SECRET)}

    with TestClient(Litestar([read])) as client:
        answer = client.put("/", content=SECRET, headers={"content-type": "application/json"})
    assert answer.json() == {"is_read": True, "is_kept": False}
