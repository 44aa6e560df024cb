"""In a crowd a refusal costs as little as can be: nobody is looked up for it."""

import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId
from openbell_server.transport.rest.intents.routes import submit_handler
from support.rest.rest_api import cancel_body, create_body


class LookedUp(Exception):
    """The request was let in to the next step."""


class Doorkeeper:
    async def with_command(self, *_: object) -> None:
        raise LookedUp


class Crowd:
    """As much of the accept step as is asked before a request is let in."""

    def __init__(self, *, is_crowded: bool) -> None:
        self.is_crowded = is_crowded

    def require_room(self, *, cancels: bool) -> None:
        if self.is_crowded and not cancels:
            raise Problem("overloaded", "more commands wait than can be accepted soon; nothing was recorded")


async def handled(body: object, *, is_crowded: bool) -> None:
    async def stream() -> AsyncIterator[bytes]:
        yield json.dumps(body).encode()

    enter: Any = Doorkeeper()
    submit: Any = SimpleNamespace(accept=Crowd(is_crowded=is_crowded))
    request: Any = SimpleNamespace(content_type=("application/json", {}), stream=stream)
    await submit_handler(enter, submit)(request, AccountId(UUID(int=1)))


async def test_a_command_in_a_crowd_is_refused_before_anybody_is_looked_up() -> None:
    with pytest.raises(Problem) as refused:
        await handled(create_body(), is_crowded=True)
    assert refused.value.code == "overloaded"


@pytest.mark.parametrize(("body", "is_crowded"), [(create_body(), False), (cancel_body("x"), True)])
async def test_a_cancel_in_a_crowd_and_everything_otherwise_is_looked_at(body: object, *, is_crowded: bool) -> None:
    with pytest.raises(LookedUp):
        await handled(body, is_crowded=is_crowded)
