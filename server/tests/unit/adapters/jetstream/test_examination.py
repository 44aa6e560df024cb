"""Whether JetStream is there is said only on an answer: a server that is slow has not said no."""

from typing import Any, cast

import pytest
from nats import errors
from nats.js.errors import ServiceUnavailableError

from openbell_server.adapters.jetstream.diagnostics import NatsDiagnostics


class Connection:
    """A connection, and its JetStream, that answers every question with an error."""

    def __init__(self, error: errors.Error) -> None:
        self.error = error

    def jetstream(self, **_: object) -> "Connection":
        return self

    async def account_info(self) -> None:
        raise self.error


def examined(error: errors.Error) -> NatsDiagnostics:
    return NatsDiagnostics(cast("Any", Connection(error)))


async def test_a_server_that_has_no_jetstream_says_so() -> None:
    assert not await examined(ServiceUnavailableError()).has_jetstream()


async def test_no_answer_in_time_is_no_answer() -> None:
    with pytest.raises(TimeoutError):
        await examined(errors.TimeoutError()).has_jetstream()
