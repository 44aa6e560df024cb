"""Follow an account's log: from a resume token or from now, every event once, in order, until access ends."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from openbell_server.application.crash_points import crash_point
from openbell_server.application.ports.stores import AccountStore
from openbell_server.domain.account_events import AccountEvent, EventKind
from openbell_server.domain.authorization import Operation, admit_to_account
from openbell_server.domain.cursors import seal, unseal
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.domain.principals import Principal

READ_EVENTS_MAX: Final = 500
# A hint that got lost costs at most this much; access is checked again as often.
WAIT_SECONDS: Final = 0.5
HEARTBEAT_SECONDS: Final = 10.0


class EventStore(Protocol):
    """The log, as a follower needs it."""

    async def head(self, organization_id: OrganizationId, account_id: AccountId) -> int:
        """The number of the newest event."""

    async def read_after(
        self, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
    ) -> list[AccountEvent]:
        """The next events."""


class Wakes(Protocol):
    """Hints that an account has new events."""

    async def wait(self, account_id: AccountId, seconds: float) -> None:
        """Return at a hint, or after the time."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What is sent: an event, or (event None) a word that everything up to position was sent."""

    event: AccountEvent | None
    position: int
    previous: int
    resume_token: str


@dataclass(frozen=True, slots=True)
class FollowEvents:
    """One subscription after another; nothing is kept between them but what the log holds."""

    accounts: AccountStore
    events: EventStore
    wakes: Wakes
    cursor_key: bytes
    monotonic: Callable[[], float]

    async def subscribe(
        self,
        enter: Callable[[], Awaitable[Principal]],
        account_id: AccountId,
        kinds: frozenset[EventKind],
        resume_token: str | None,
    ) -> AsyncIterator[Frame]:
        """First a frame with the position from which nothing is missed; then events, and heartbeats when quiet."""
        caller = await self._enter(enter, account_id)
        position = previous = await self._start(caller, account_id, resume_token)
        yield self._frame(None, account_id, position, previous)
        last_sent = last_entered = self.monotonic()
        while True:
            # A key that was revoked, or lost its permission, ends the stream, however much there is still to send.
            if self.monotonic() - last_entered >= WAIT_SECONDS:
                caller = await self._enter(enter, account_id)
                last_entered = self.monotonic()
            found = await self.events.read_after(caller.organization_id, account_id, position, READ_EVENTS_MAX)
            for event in found:
                assert event.number == position + 1, "the log has a hole"
                position = event.number
                if event.kind in kinds:
                    crash_point("stream.before_event")
                    yield self._frame(event, account_id, position, previous)
                    crash_point("stream.after_event")
                    previous = position
                    last_sent = self.monotonic()
            if len(found) == READ_EVENTS_MAX:
                continue
            if self.monotonic() - last_sent >= HEARTBEAT_SECONDS:
                yield self._frame(None, account_id, position, previous)
                last_sent = self.monotonic()
            await self.wakes.wait(account_id, WAIT_SECONDS)

    async def _enter(self, enter: Callable[[], Awaitable[Principal]], account_id: AccountId) -> Principal:
        caller = await enter()
        account = await self.accounts.find_account(caller.organization_id, account_id)
        if account is None:
            raise Problem("not_found", "there is no such account")
        admit_to_account(caller, Operation.FOLLOW_EVENTS, account)
        return caller

    async def _start(self, caller: Principal, account_id: AccountId, resume_token: str | None) -> int:
        if not resume_token:
            return await self.events.head(caller.organization_id, account_id)
        position = unseal(self.cursor_key, f"events {account_id}", resume_token)
        if position is None:
            raise Problem("invalid_cursor", "this resume token was not given for this account")
        return position

    def _frame(self, event: AccountEvent | None, account_id: AccountId, position: int, previous: int) -> Frame:
        return Frame(event, position, previous, seal(self.cursor_key, f"events {account_id}", position))
