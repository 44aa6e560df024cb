"""In a crowd a refusal costs as little as can be: the application does not see the command."""

import json
from typing import Any
from uuid import UUID

import pytest

from openbell_server.transport.rest.intents.crowds import refuse_crowds
from support.rest.rest_api import cancel_body, create_body

PATH = f"/v1/accounts/{UUID(int=1)}/intents".encode()


class Server:
    """One request as a server passes it on, and what it was answered."""

    def __init__(self, body: bytes, method: str = "POST", parts: int = 1) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        self.scope: Any = {"type": "http", "method": method, "raw_path": PATH, "query_string": b"", "headers": headers}
        size = -(-len(body) // parts)
        pieces = [body[at : at + size] for at in range(0, len(body), size)]
        self.messages = [
            {"type": "http.request", "body": piece, "more_body": number < len(pieces)}
            for number, piece in enumerate(pieces, 1)
        ]
        self.sent: list[Any] = []
        self.read = b""
        self.observed: list[tuple[str, str | None, int]] = []

    async def receive(self) -> Any:
        return self.messages.pop(0)

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def app(self, _: Any, receive: Any, __: Any) -> None:
        more = True
        while more:
            message = await receive()
            self.read += message["body"]
            more = message["more_body"]

    async def serve(self, *, is_crowded: bool) -> None:
        app = refuse_crowds(
            self.app,
            lambda account_id: is_crowded and account_id == UUID(int=1),
            lambda method, path, status, _: self.observed.append((method, path, status)),
        )
        await app(self.scope, self.receive, self.send)


def text(body: object) -> bytes:
    return json.dumps(body).encode()


async def test_a_command_in_a_crowd_is_refused_before_the_application_sees_it() -> None:
    server = Server(text(create_body()))
    await server.serve(is_crowded=True)
    start, content = server.sent
    headers = dict(start["headers"])
    assert (start["status"], headers[b"retry-after"], headers[b"cache-control"]) == (503, b"1", b"no-store")
    told = json.loads(content["body"])
    assert (told["code"], told["request_id"]) == ("overloaded", headers[b"x-request-id"].decode())
    assert server.read == b""
    assert server.observed == [("POST", "/v1/accounts/{account_id}/intents", 503)]


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize(
    ("body", "is_crowded"),
    [
        (text(create_body()), False),
        (text(cancel_body("x")), True),
        (text(cancel_body("x")).replace(b"CANCEL", b"\\u0043ANCEL"), True),
    ],
)
async def test_a_cancel_in_a_crowd_and_everything_otherwise_is_passed_on_whole(
    body: bytes, parts: int, *, is_crowded: bool
) -> None:
    server = Server(body, parts=parts)
    await server.serve(is_crowded=is_crowded)
    assert (server.read, server.sent) == (body, [])


async def test_a_body_that_is_not_here_yet_is_passed_on() -> None:
    server = Server(text(create_body()), parts=2)
    await server.serve(is_crowded=True)
    assert server.read == text(create_body())
