"""Connections to one host over HTTP/1.1 that write each request once and limit what is read as its answer."""

import asyncio
import select
import ssl
from collections.abc import Callable
from typing import Final, cast

import httptools

from openbell_server.application.ports.broker import QueryFailed

ANSWER_BYTES_MAX: Final = 1_000_000
# Limit for the bytes of one answer on the wire, headers and framing included.
WIRE_BYTES_MAX: Final = 2_000_000
# Interim answers count too.
HEAD_BYTES_MAX: Final = 100_000
CONNECT_SECONDS: Final = 1
CONNECTIONS_MAX: Final = 128
IDLE_CONNECTIONS_MAX: Final = 128
# Shorter than the idle timeout of servers, so that no command is written into a closing connection.
_IDLE_SECONDS: Final = 2
# How much of an endless answer is kept until it is read.
_UNREAD_BYTES_MAX: Final = 65_536
_VERSIONS: Final = frozenset({"1.0", "1.1"})
_FINAL: Final = 200


class BrokerHttpError(QueryFailed):
    """There is no answer of the broker that can be used."""


class NothingWritten(BrokerHttpError):
    """No byte of the request was written."""


class ConnectionBroken(BrokerHttpError):
    """The answer is not HTTP, or the connection ended before its end."""


class AnswerTooLong(BrokerHttpError):
    """The broker's answer is larger than the limit."""


class Answer:
    """What has arrived of the answer to one request. The methods on_... are called by the parser."""

    def __init__(self, *, is_endless: bool) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        # The reader takes parts of the body while it arrives.
        self.is_endless = is_endless
        # The head has arrived, other than that of an interim answer.
        self.is_begun = False
        self.is_complete = False
        # Another request may follow on the connection.
        self.keeps_connection = False
        self._bytes = self._head_bytes = 0
        self._trouble: BrokerHttpError | None = None
        self._changed: asyncio.Future[None] | None = None
        # None once no more is read.
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)

    async def wait(self, until: Callable[[], object]) -> None:
        """Wait until something has arrived; raises if the answer breaks off before."""
        while not until():
            if self._trouble is not None:
                raise self._trouble
            self._changed = asyncio.get_running_loop().create_future()
            await self._changed

    def feed(self, data: bytes) -> bool:
        """Read more of the answer; False if the connection must end."""
        if self._parser is None:
            self.keeps_connection = False
            return False
        self._bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as trouble:
            self.fail(ConnectionBroken(f"an answer that is not HTTP: {trouble}"))
        if self._bytes > (WIRE_BYTES_MAX if self.is_begun else HEAD_BYTES_MAX):
            self.fail(AnswerTooLong(f"more than {self._bytes} bytes for one answer"))
        self._tell()
        return self._trouble is None

    def end(self) -> None:
        """The broker closed the connection, which completes an answer without a length."""
        if not ("content-length" in self.headers or "transfer-encoding" in self.headers):
            self.is_complete = self.is_begun
        self.fail(ConnectionBroken("the broker closed the connection"))

    def fail(self, trouble: BrokerHttpError) -> None:
        """Read no more; the answer is lost unless it is complete."""
        self.keeps_connection = False
        self._parser = None
        if not self.is_complete and self._trouble is None:
            self._trouble = trouble
        self._tell()

    def allow_more(self) -> None:
        """Reset the limit: what has arrived was processed."""
        self._bytes = 0

    def on_message_begin(self) -> None:
        if self.is_complete:
            # More than was asked for.
            self.keeps_connection = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value) + len(b": \r\n")
        if self._head_bytes > HEAD_BYTES_MAX:
            self._stop(AnswerTooLong(f"a head of more than {HEAD_BYTES_MAX} bytes"))
        # Not those after a body.
        if not self.is_begun:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        if not self.is_begun and self._parser is not None:
            if self._parser.get_http_version() not in _VERSIONS:
                self._stop(ConnectionBroken("an answer of another version"))
            self.status = self._parser.get_status_code()
            self.is_begun = self.status >= _FINAL

    def on_body(self, body: bytes) -> None:
        if not self.is_complete:
            self.body += body
            if len(self.body) > ANSWER_BYTES_MAX and not self.is_endless:
                self._stop(AnswerTooLong(f"an answer of more than {ANSWER_BYTES_MAX} bytes"))

    def on_message_complete(self) -> None:
        if not self.is_begun:
            # An interim answer.
            self.headers.clear()
        elif not self.is_complete and self._parser is not None:
            self.is_complete = True
            self.keeps_connection = self._parser.should_keep_alive()

    def _stop(self, trouble: BrokerHttpError) -> None:
        """Stop the parser."""
        self.fail(trouble)
        raise trouble

    def _tell(self) -> None:
        if self.is_complete:
            # It refers to this object.
            self._parser = None
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)


class Connection(asyncio.Protocol):
    """One connection with one request at a time. Whatever arrives unasked ends it."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._answer: Answer | None = None
        self._socket = select.poll()
        self.expiry: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._socket.register(transport.get_extra_info("socket"), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        if self._answer is None or not self._answer.feed(data):
            self.abort()
        elif self._answer.is_endless and len(self._answer.body) > _UNREAD_BYTES_MAX:
            self._transport.pause_reading()

    def eof_received(self) -> None:
        if self._answer is not None:
            self._answer.end()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None:
            self._answer.fail(ConnectionBroken(f"the connection ended: {exc or 'closed'}"))

    def is_silent(self) -> bool:
        """Whether nothing has arrived on an idle connection, not even its end, also of what was not read yet."""
        return not self._transport.is_closing() and not self._socket.poll(0)

    def send(self, content: bytes, *, is_endless: bool = False) -> Answer:
        """Write a request, once."""
        if self._transport.is_closing():
            raise NothingWritten("the broker spoke or left before it was asked")
        self._answer = Answer(is_endless=is_endless)
        self._transport.write(content)
        return self._answer

    def take_body(self) -> bytes:
        """What has arrived of the body since the last time."""
        assert self._answer is not None
        taken = bytes(self._answer.body)
        self._answer.body.clear()
        self._transport.resume_reading()
        return taken

    def release(self) -> bool:
        """End the request; whether another may follow."""
        answer, self._answer = self._answer, None
        is_written = not self._transport.is_closing() and not self._transport.get_write_buffer_size()
        return is_written and answer is not None and answer.keeps_connection

    def abort(self) -> None:
        self._transport.abort()


class Connections:
    """A limited number of connections to one host; one that was idle for _IDLE_SECONDS is closed."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        self.is_closed = False
        self._address = (host, port)
        self._tls = tls
        self._places = asyncio.Semaphore(CONNECTIONS_MAX)
        self._open: set[Connection] = set()
        # The last one was used last.
        self._idle: list[Connection] = []

    async def take(self) -> Connection:
        """A connection for one request; raises NothingWritten if there is none in time."""
        if self.is_closed:
            raise NothingWritten("the client is closed")
        if self._places.locked():
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await self._places.acquire()
            except TimeoutError as trouble:
                raise NothingWritten(f"all {CONNECTIONS_MAX} connections are in use") from trouble
        else:
            await self._places.acquire()
        try:
            while self._idle:
                connection = self._idle.pop()
                if connection.expiry is not None:
                    connection.expiry.cancel()
                if connection.is_silent():
                    return connection
                self._end(connection)
            return await self._connect()
        except BaseException:
            self._places.release()
            raise

    def give_back(self, connection: Connection) -> None:
        """Keep the connection if its answer is complete and the broker keeps it."""
        self._places.release()
        if connection.release() and len(self._idle) < IDLE_CONNECTIONS_MAX and not self.is_closed:
            self._idle.append(connection)
            connection.expiry = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._expire, connection)
        else:
            self._end(connection)

    def close(self) -> None:
        self.is_closed = True
        for connection in [*self._open]:
            self._end(connection)
        self._idle.clear()

    async def _connect(self) -> Connection:
        host, port = self._address
        name = host if self._tls else None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await asyncio.get_running_loop().create_connection(
                    Connection, host, port, ssl=self._tls, server_hostname=name
                )
        except (OSError, TimeoutError) as trouble:
            raise NothingWritten(f"no connection: {trouble!r}") from trouble
        self._open.add(connection)
        if self.is_closed:
            self._end(connection)
        return connection

    def _expire(self, connection: Connection) -> None:
        self._idle.remove(connection)
        self._end(connection)

    def _end(self, connection: Connection) -> None:
        self._open.discard(connection)
        if connection.expiry is not None:
            connection.expiry.cancel()
        connection.abort()
