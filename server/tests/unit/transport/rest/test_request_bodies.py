"""The bodies that callers send: not kept longer than needed, and every wrong field reported at once."""

import gc
from types import ModuleType
from typing import Any

import pytest
from litestar import Litestar, Request, put
from litestar.testing import TestClient

from openbell_server.brokers.paper.definition import PAPER_BROKERS
from openbell_server.domain.errors import Problem
from openbell_server.transport.rest.intents.bodies import SubmitBody
from openbell_server.transport.rest.strict_json import json_body_of, read_json

SECRET = b'{"fields": {"secret": "plain text"}}'


def is_reachable(start: object, wanted: bytes) -> bool:
    """Whether an object leads to these bytes, over what it refers to; a module leads to all modules, also to ours."""
    seen: set[int] = set()
    left = [start]
    while left:
        each = left.pop()
        if each == wanted:
            return True
        if id(each) not in seen and not isinstance(each, type | ModuleType):
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


def test_every_value_that_the_domain_refuses_is_reported_at_once() -> None:
    body = read_json(
        b"""{"command": {"type": "CREATE", "payload": {"symbol": "A A", "order_side": "BUY",
        "spec": {"StopLimit": {"quantity": "0", "price": "0.0", "stop_price": "0"}}}},
        "client_reference_id": "\\u0007", "deadline": "0001-01-01T00:00:00+14:00"}""",
        SubmitBody,
    )
    with pytest.raises(Problem) as raised:
        body.to_request(PAPER_BROKERS["paper"])
    spec = "/command/payload/spec/StopLimit"
    pointers = [error.pointer for error in raised.value.errors]
    assert pointers == [
        "/client_reference_id",
        "/command/payload/symbol",
        *(f"{spec}/{name}" for name in ("quantity", "price", "stop_price")),
        "/deadline",
    ]
    assert raised.value.detail.count("; ") == 5
