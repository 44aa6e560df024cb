"""Bots that promise heartbeats and fall silent, and what they were answered."""

import contextlib
from dataclasses import dataclass, field
from datetime import datetime

import httpx

from openbell_server.devtools.local_platform import LocalPlatform
from proof.nemesis import Nemesis
from support.rest.rest_api import create_body


@dataclass(slots=True)
class Bot:
    """A caller and what it was answered; the times are the database's."""

    key: str
    scope: str
    subject: str
    account_id: str
    timeout_seconds: int
    # Sends one more heartbeat after it fell silent for too long.
    is_late: bool = False
    # Of every accepted heartbeat: when it came, and until when the promise held after it.
    accepted: list[tuple[datetime, datetime]] = field(default_factory=list)
    # Whether an answer was lost since the last accepted heartbeat.
    is_doubtful: bool = False
    # Heartbeats that were accepted after the promise had run out.
    revived: int = 0
    # Answers that the promise was missed.
    missed: int = 0
    orders: int = 0

    @property
    def place(self) -> tuple[str, str]:
        return self.scope, self.subject

    def note(self, beat_at: datetime, expires_at: datetime) -> None:
        if self.accepted and not self.is_doubtful and beat_at > self.accepted[-1][1]:
            self.revived += 1
        self.accepted.append((beat_at, expires_at))
        self.is_doubtful = False


@dataclass(slots=True)
class Stage:
    platform: LocalPlatform
    http: httpx.AsyncClient
    nemesis: Nemesis
    # When PostgreSQL was away.
    away: list[tuple[datetime, datetime]] = field(default_factory=list)

    async def send(self, bot: Bot, method: str, path: str, body: object | None = None) -> httpx.Response | None:
        """None: nothing is known of the request."""
        with contextlib.suppress(httpx.HTTPError):
            answer = await self.http.request(method, path, json=body, headers={"x-api-key": bot.key})
            return answer if answer.status_code < 500 else None
        return None

    async def beat(self, bot: Bot) -> bool:
        """Whether it was accepted."""
        named = "" if bot.scope == "KEY" else f"&account_id={bot.account_id}"
        body = {"timeout_seconds": bot.timeout_seconds, "cancel_working": True}
        answer = await self.send(bot, "PUT", f"/v1/controls/heartbeats?scope={bot.scope}{named}", body)
        if answer is None:
            bot.is_doubtful = True
            return False
        if answer.status_code == 409:
            assert answer.json()["code"] == "heartbeat_missed", answer.text
            bot.missed += 1
            return False
        assert answer.status_code == 200, answer.text
        told = answer.json()
        bot.note(*(datetime.fromisoformat(told[name]) for name in ("last_beat_at", "expires_at")))
        return True

    async def order(self, bot: Bot) -> bool:
        """Whether it was refused because of a halt."""
        path = f"/v1/accounts/{bot.account_id}/intents"
        answer = await self.send(bot, "POST", path, create_body("Limit", price="0.01", quantity="1"))
        if answer is None or answer.status_code == 202:
            bot.orders += 1
            return False
        if answer.status_code == 409:
            # Each halt is a change of the organization's rules; many at once let commands be evaluated again too often.
            assert answer.json()["code"] == "concurrent_change", answer.text
            return False
        assert answer.status_code == 422, answer.text
        return "HALTED" in str(answer.json()["detail"])
