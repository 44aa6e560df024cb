"""The sessions of the console: read at most once a second, renewed in time, ended within a second everywhere."""

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from openbell_server.application.console.ports import (
    OpenIdProvider,
    ProviderAway,
    Sealer,
    SessionRow,
    SessionStore,
    SignedIn,
    SignInRefused,
    Tokens,
)
from openbell_server.domain.access.console_sessions import NOTE_USE_SECONDS, SESSION_SECONDS, refresh_ahead
from openbell_server.domain.errors import Problem

CACHE_SECONDS: Final = 0.8
CACHED_MAX: Final = 10_000
# How often open streams are checked against the database, and how long without an answer of it before they end.
CHECK_SECONDS: Final = 0.5
UNCHECKED_SECONDS_MAX: Final = 5.0
# Longer than a call of the provider takes, so that no other process renews meanwhile; also the pause after a failure.
CLAIM_SECONDS: Final = 10.0
WAIT_SECONDS: Final = 0.1
# A token that ends so soon is not used any more.
TOKEN_SECONDS_MIN: Final = 2.0
STREAMS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Session:
    """A live session. token_ends and renew_at are of the monotonic clock."""

    session_hash: bytes
    issuer: str
    subject: str
    tokens: Tokens
    refreshes: int
    expires_at: datetime
    token_ends: float
    renew_at: float
    read_at: float


@dataclass(eq=False, slots=True)
class OpenStream:
    """A stream of a session; ended is set when the session ends."""

    ended: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class ConsoleSessions:
    """All sessions of this process."""

    store: SessionStore
    provider: OpenIdProvider
    sealer: Sealer
    monotonic: Callable[[], float]
    _cached: dict[bytes, Session] = field(default_factory=dict)
    _reading: dict[bytes, asyncio.Task[Session | None]] = field(default_factory=dict)
    _renewing: dict[bytes, asyncio.Task[None]] = field(default_factory=dict)
    _streams: dict[bytes, set[OpenStream]] = field(default_factory=dict)

    async def open(self, cookie: bytes, signed_in: SignedIn) -> None:
        session_hash, tokens = hash_of(cookie), signed_in.tokens
        # Without a refresh token the session cannot last longer than the token.
        seconds = SESSION_SECONDS if tokens.refresh else min(SESSION_SECONDS, tokens.seconds)
        await self.store.open(
            session_hash,
            signed_in.issuer,
            signed_in.subject,
            self._sealed(session_hash, tokens),
            tokens.seconds,
            seconds,
        )

    async def find(self, cookie: bytes, *, is_use: bool) -> Session | None:
        """The session with a token that can be used; None if it has ended. Raises Problem if the provider is away."""
        session_hash = hash_of(cookie)
        session = await self._read(session_hash, is_use=is_use)
        if session is None or self.monotonic() < session.renew_at:
            return session
        if session.tokens.refresh is not None:
            renewing = self._renewing.get(session_hash)
            if renewing is None:
                renewing = asyncio.create_task(self._renew(session, session.tokens.refresh))
                self._renewing[session_hash] = renewing
                renewing.add_done_callback(lambda _: self._renewing.pop(session_hash, None))
            if session.token_ends - self.monotonic() > TOKEN_SECONDS_MIN:
                return session
            # Shielded: others wait for it too.
            await asyncio.shield(renewing)
            session = await self._read(session_hash, is_use=False)
        if session is not None and session.token_ends <= self.monotonic():
            if session.tokens.refresh is not None:
                raise Problem("unavailable", "the identity provider did not renew the sign-in; try again")
            await self._end(session_hash)
            return None
        return session

    async def end(self, cookie: bytes) -> None:
        await self._end(hash_of(cookie))

    async def end_everywhere(self, cookie: bytes) -> None:
        """End every session of the user; other processes notice it within a second."""
        session_hash = hash_of(cookie)
        session = await self._read(session_hash, is_use=False)
        await self.store.end_all_of_user(session_hash)
        if session is not None:
            for each in [*self._cached.values()]:
                if (each.issuer, each.subject) == (session.issuer, session.subject):
                    self._forget(each.session_hash)
        self._forget(session_hash)

    @contextlib.contextmanager
    def stream(self, session: Session) -> Iterator[OpenStream]:
        """A place for one stream; raises Problem if the session has too many."""
        same = self._streams.setdefault(session.session_hash, set())
        if len(same) >= STREAMS_MAX:
            raise Problem("too_many_streams", f"a session of the console may have {STREAMS_MAX} streams open")
        stream = OpenStream()
        same.add(stream)
        try:
            yield stream
        finally:
            same.discard(stream)
            if not same and self._streams.get(session.session_hash) is same:
                del self._streams[session.session_hash]

    async def check_streams(self) -> None:
        """End the streams of sessions that have ended."""
        watched = list(self._streams)
        if watched:
            live = await self.store.live_among(watched)
            for session_hash in watched:
                if session_hash not in live:
                    self._forget(session_hash)

    def end_streams(self) -> None:
        """End all streams: their sessions cannot be checked, or the process stops."""
        for streams in self._streams.values():
            for stream in streams:
                stream.ended.set()

    async def _end(self, session_hash: bytes) -> None:
        self._forget(session_hash)
        await self.store.end(session_hash)
        # Another request may have read it meanwhile.
        self._forget(session_hash)

    def _forget(self, session_hash: bytes) -> None:
        self._cached.pop(session_hash, None)
        # What is being read now may be from before the end.
        self._reading.pop(session_hash, None)
        for stream in self._streams.get(session_hash, ()):
            stream.ended.set()

    async def _read(self, session_hash: bytes, *, is_use: bool) -> Session | None:
        cached = self._cached.get(session_hash)
        if cached is not None and self.monotonic() - cached.read_at < CACHE_SECONDS:
            return cached
        reading = self._reading.get(session_hash)
        if reading is None:
            reading = asyncio.create_task(self._load(session_hash, is_use=is_use))
            self._reading[session_hash] = reading
        return await asyncio.shield(reading)

    async def _load(self, session_hash: bytes, *, is_use: bool) -> Session | None:
        me = asyncio.current_task()
        try:
            read_at = self.monotonic()
            row = await self.store.read(session_hash)
            session = None if row is None else self._opened(session_hash, row, read_at)
            if session is None:
                if row is not None:
                    # Encrypted with another key, so it cannot be used.
                    await self.store.end(session_hash)
                self._cached.pop(session_hash, None)
                return None
            if row is not None and is_use and row.unused_seconds > NOTE_USE_SECONDS:
                await self.store.note_use(session_hash)
            if self._reading.get(session_hash) is me:
                self._cached.pop(session_hash, None)
                if len(self._cached) >= CACHED_MAX:
                    del self._cached[next(iter(self._cached))]
                self._cached[session_hash] = session
            return session
        finally:
            if self._reading.get(session_hash) is me:
                del self._reading[session_hash]

    async def _renew(self, session: Session, refresh_token: str) -> None:
        session_hash = session.session_hash
        if not await self.store.claim_refresh(session_hash, session.refreshes, CLAIM_SECONDS):
            await self._await_renewal(session)
            return
        try:
            tokens = await self.provider.refresh(refresh_token)
        except ProviderAway:
            # The claim keeps every process from trying again at once.
            return
        except SignInRefused:
            await self._end(session_hash)
            return
        if tokens.refresh is None:
            # The provider does not rotate it.
            tokens = Tokens(tokens.access, refresh_token, tokens.seconds, tokens.lifetime_seconds)
        sealed = self._sealed(session_hash, tokens)
        await self.store.save_tokens(session_hash, session.refreshes, sealed, tokens.seconds)
        self._cached.pop(session_hash, None)
        self._reading.pop(session_hash, None)

    async def _await_renewal(self, session: Session) -> None:
        """Another process renews the tokens: wait for it, if they cannot be used until then."""
        until = self.monotonic() + CLAIM_SECONDS
        while self.monotonic() < until and session.token_ends - self.monotonic() <= TOKEN_SECONDS_MIN:
            row = await self.store.read(session.session_hash)
            if row is None or row.refreshes != session.refreshes:
                break
            await asyncio.sleep(WAIT_SECONDS)
        self._cached.pop(session.session_hash, None)
        # What is being read now may be from before the renewal.
        self._reading.pop(session.session_hash, None)

    def _sealed(self, session_hash: bytes, tokens: Tokens) -> bytes:
        text = json.dumps([tokens.access, tokens.refresh, tokens.lifetime_seconds])
        return self.sealer.seal(text.encode(), b"tokens " + session_hash)

    def _opened(self, session_hash: bytes, row: SessionRow, now: float) -> Session | None:
        text = self.sealer.open(row.sealed_tokens, b"tokens " + session_hash)
        if text is None:
            return None
        access, refresh, lifetime = json.loads(text)
        ends = now + row.token_seconds
        return Session(
            session_hash=session_hash,
            issuer=row.issuer,
            subject=row.subject,
            tokens=Tokens(access, refresh, row.token_seconds, lifetime),
            refreshes=row.refreshes,
            expires_at=row.expires_at,
            token_ends=ends,
            renew_at=ends - refresh_ahead(lifetime),
            read_at=now,
        )


def hash_of(cookie: bytes) -> bytes:
    return hashlib.sha256(cookie).digest()
