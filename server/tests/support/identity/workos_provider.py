"""WorkOS on loopback: the calls that its own SDK makes, answered in its shapes, and every way to answer badly."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

API_KEY = "sk_test_of_the_loopback"
_MOMENT = "2026-01-05T12:00:00.000Z"
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
Answer = tuple[int, bytes]
# How it may fail instead of answering; "lost" does what it was asked and hangs up before it says so.
FAULTS = ("500", "503", "429", "401", "slow", "dripping", "truncated", "html", "redirect", "hangs_up", "lost", "shape")


@dataclass(slots=True)
class WorkOS:
    """Users, organizations and who belongs where; `fault` is one of FAULTS, or empty."""

    url: str = ""
    fault: str = ""
    users: set[str] = field(default_factory=set)
    organizations: dict[str, str] = field(default_factory=dict)
    # (user, organization, status), in the order in which they joined.
    members: list[tuple[str, str, str]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def add_member(self, user: str, organization: str, status: str = "active") -> None:
        self.users.add(user)
        self.organizations.setdefault(organization, f"Name of {organization}")
        self.members.append((user, organization, status))

    def answer(self, method: str, target: str, key: str) -> Answer:
        """What it says to a request."""
        path = [unquote(part) for part in urlsplit(target).path.strip("/").split("/")]
        query = {name: values[-1] for name, values in parse_qs(urlsplit(target).query).items()}
        if key != API_KEY:
            return _said(401, {"message": "Unauthorized"})
        match method, path:
            case "GET", ["user_management", "organization_memberships"]:
                return self._list(query)
            case "DELETE", ["user_management", "users", user]:
                if user not in self.users:
                    return _missing("User", user)
                self.users.discard(user)
                self.members = [row for row in self.members if row[0] != user]
                return 204, b""
            case "GET", ["organizations", organization]:
                if organization not in self.organizations:
                    return _missing("Organization", organization)
                return _said(200, _organization(organization, self.organizations[organization]))
            case _:
                return _said(404, {"message": "Not Found", "error": "Not Found"})

    def _list(self, query: dict[str, str]) -> Answer:
        if not {"user_id", "organization_id"} & set(query):
            return _said(422, {"message": "Validation failed", "code": "invalid_request_parameters"})
        statuses = query.get("statuses", "active").split(",")
        rows = [
            _membership(number, *row)
            for number, row in enumerate(self.members)
            if row[0] == query.get("user_id", row[0])
            and row[1] == query.get("organization_id", row[1])
            and row[2] in statuses
        ]
        ids = [row["id"] for row in rows]
        begin = ids.index(query["after"]) + 1 if query.get("after") in ids else 0
        end = begin + int(query.get("limit", "10"))
        after = ids[end - 1] if end < len(rows) else None
        metadata = {"before": None, "after": after}
        return _said(200, {"object": "list", "data": rows[begin:end], "list_metadata": metadata})

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        head = await reader.readuntil(b"\r\n\r\n")
        if length := _LENGTH.search(head):
            await reader.readexactly(int(length[1]))
        method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
        self.asked.append(f"{method} {target}")
        authorization = re.search(rb"authorization: *bearer +(\S+)", head, re.IGNORECASE)
        answer = await self._misbehave(writer)
        if answer is None:
            answer = self.answer(method, target, authorization[1].decode() if authorization else "")
        if self.fault != "lost":
            await _write(writer, *answer)

    async def _misbehave(self, writer: asyncio.StreamWriter) -> Answer | None:
        match self.fault:
            case "500" | "503" | "429" | "401":
                return _said(int(self.fault), {"message": "a bad day"})
            case "slow":
                await asyncio.Event().wait()
            case "dripping":
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
                while True:
                    writer.write(b" ")
                    await writer.drain()
                    await asyncio.sleep(0.01)
            case "truncated":
                return 200, b'{"object": "list", "data": [{"object": "organization_mem'
            case "shape":
                return _said(200, {"object": "list", "data": [{"id": 7}, "x"], "list_metadata": {}})
            case "html":
                return 404, b"<html>not here</html>"
            case "redirect":
                return 302, b""
            case "hangs_up":
                writer.transport.abort()
                raise ConnectionResetError
        return None


@asynccontextmanager
async def workos(port: int = 0) -> AsyncIterator[WorkOS]:
    """One that runs."""
    provider, serving = WorkOS(), set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await provider.serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(serve(reader, writer))
        serving.add(task)
        task.add_done_callback(serving.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", port)
    provider.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield provider
    finally:
        server.close()
        for task in list(serving):
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


async def _write(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
    place = "location: /elsewhere\r\n" if status == 302 else ""
    head = f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n{place}"
    writer.write(f"{head}x-request-id: r1\r\nconnection: close\r\n\r\n".encode() + body)
    await writer.drain()


def _said(status: int, body: dict[str, Any]) -> Answer:
    return status, json.dumps(body).encode()


def _missing(what: str, identifier: str) -> Answer:
    message = f"{what} not found: '{identifier}'."
    return _said(404, {"message": message, "code": "entity_not_found", "entity_id": identifier})


def _times() -> dict[str, Any]:
    return {"created_at": _MOMENT, "updated_at": _MOMENT}


def _membership(number: int, user: str, organization: str, status: str) -> dict[str, Any]:
    return {
        "object": "organization_membership",
        "id": f"om_{number}",
        "user_id": user,
        "organization_id": organization,
        "organization_name": f"Name of {organization}",
        "status": status,
        "directory_managed": False,
        "custom_attributes": {},
        "role": {"slug": "member"},
        "roles": [{"slug": "member"}],
        "user": {
            "object": "user",
            "id": user,
            "first_name": None,
            "last_name": None,
            "profile_picture_url": None,
            "email": f"{number}@people.test",
            "email_verified": True,
            "external_id": None,
            "last_sign_in_at": None,
            **_times(),
        },
        **_times(),
    }


def _organization(organization: str, name: str) -> dict[str, Any]:
    facts = {"object": "organization", "id": organization, "name": name, "external_id": None}
    return {**facts, "domains": [], "metadata": {}, **_times()}
