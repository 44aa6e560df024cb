"""Hostile answers, made of an answer that a broker would give: each says what may still be concluded from it."""

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import Enum, auto
from typing import Any, Final

from conformance.hostile_frames import frame
from conformance.samples import Answer, Route, Samples

# Bytes to write, or seconds to wait; some never end.
Pieces = Callable[[], Iterator[bytes | float]]
Path = tuple[str | int, ...]

_HOLE: Final = "@@"
_BLOCK: Final = 65_536
_DRIP_SECONDS: Final = 0.1
# As long as an answer may be, within what is listened to.
_LONG: Final = 900_000
_DEEP: Final = 100_000
_STATUSES: Final = (
    *(200, 201, 202, 203, 204, 205, 206, 226, 299, 300, 304, 305, 306, 399, 400, 401, 402, 403, 404, 405, 406, 408),
    *(409, 410, 411, 412, 413, 415, 418, 421, 422, 423, 425, 426, 428, 429, 431, 451, 499),
    *(500, 501, 502, 503, 504, 505, 507, 508, 511, 520, 522, 524, 530, 599, 600, 999),
)


class Proves(Enum):
    """What may be concluded."""

    # Only that nothing is known.
    NOTHING = auto()
    # Nothing, or exactly what the answer said before it was tampered with.
    AS_BEFORE = auto()
    # Nothing, or something of the same kind: what was changed is free.
    THE_KIND = auto()


@dataclass(frozen=True, slots=True)
class Payload:
    """One hostile answer."""

    name: str
    pieces: Pieces
    proves: Proves = Proves.NOTHING
    # Whether the server stays on the line afterwards, and whether that takes until the client gives up.
    stays: bool = False
    slow: bool = False
    # Whether it is more than a session should read; or as much as it likes, in small pieces.
    heavy: bool = False
    floods: bool = False
    # Over a WebSocket: what is said there before the pieces, which are frames then. Without, there is no such thing.
    messages: Callable[[], list[bytes]] | None = None


def payloads_of(samples: Samples, route: Route, answer: Answer) -> list[Payload]:
    """Every hostile answer that can be made of this one."""
    made = [*_of_bytes(answer), *_of_head(answer), *_of_length(answer), *_of_time(answer), *_of_status(route, answer)]
    if route.is_socket:
        made += [*_of_messages(samples, route, answer), *frames_of(answer)]
    elif answer.body:
        made += [*_of_body(answer), *_of_json(samples, route, answer)]
    return made


def _of_messages(samples: Samples, route: Route, answer: Answer) -> Iterator[Payload]:
    for what, body, proves in _tampered(samples, route, answer):
        yield Payload(what, _once(), proves, stays=True, messages=lambda body=body: body().splitlines())  # type: ignore[misc]


def plain(answer: Answer, body: bytes | None = None, status: int | None = None, head: str = "") -> bytes:
    """An answer with its length; head holds more lines."""
    body = answer.body if body is None else body
    status = answer.status if status is None else status
    return (
        f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n{head}\r\n".encode()
        + body
    )


def _once(*pieces: bytes | float) -> Pieces:
    return lambda: iter(pieces)


def _for_ever(first: bytes, again: bytes, wait: float = 0) -> Pieces:
    def pieces() -> Iterator[bytes | float]:
        yield first
        while True:
            yield again
            yield wait

    return pieces


def _of_bytes(answer: Answer) -> Iterator[Payload]:
    """What is no HTTP, or hardly."""
    whole = plain(answer)
    garbage = {
        "nothing": b"",
        "an empty line": b"\r\n",
        "a banner": b"SSH-2.0-OpenSSH_9.9\r\n",
        "a TLS alert": b"\x15\x03\x01\x00\x02\x02\x28",
        "an HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "HTTP/0.9": answer.body or b"ok",
        "a status of two digits": whole.replace(b"HTTP/1.1 ", b"HTTP/1.1 2", 1)[:11] + b" X\r\n\r\n",
        "a status of letters": b"HTTP/1.1 OK 200\r\n\r\n",
        "a status below zero": b"HTTP/1.1 -20 X\r\ncontent-length: 0\r\n\r\n",
        "all bytes there are": bytes(range(256)) * 16,
        "a header with NUL": b"HTTP/1.1 200 X\r\nx: a\x00b\r\n\r\n",
        "a header without a name": b"HTTP/1.1 200 X\r\n: b\r\ncontent-length: 0\r\n\r\n",
        "half a status line": whole[:7],
        "half a head": whole[:30],
    }
    yield from (Payload(name, _once(garbage[name])) for name in garbage)
    yield Payload("endless empty lines", _for_ever(b"", b"\r\n" * (_BLOCK // 2)), heavy=True)
    yield Payload("endless zeros", _for_ever(b"", bytes(_BLOCK)), heavy=True)


def _of_head(answer: Answer) -> Iterator[Payload]:
    """Heads that are too much, or lead elsewhere."""
    status = f"HTTP/1.1 {answer.status} X\r\n".encode()
    whole = plain(answer)
    yield Payload("an endless header", _for_ever(status + b"x: ", b"x" * _BLOCK), heavy=True)
    yield Payload("endless headers", _for_ever(status, b"x: y\r\n" * 10_000), heavy=True)
    yield Payload("a header of 200 KB", _once(plain(answer, head=f"x: {'x' * 200_000}\r\n")))
    yield Payload("an endless reason", _for_ever(b"HTTP/1.1 200 ", b"x" * _BLOCK), heavy=True)
    yield Payload("an endless flood of 100s", _for_ever(b"", b"HTTP/1.1 100 X\r\n\r\n" * 3_000), heavy=True)
    yield Payload("an endless flood of 103s", _for_ever(b"", b"HTTP/1.1 103 X\r\nlink: x\r\n\r\n" * 2_000), heavy=True)
    yield Payload("101", _once(b"HTTP/1.1 101 X\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n" + whole))
    yield Payload("100 first", _once(b"HTTP/1.1 100 X\r\n\r\n" + whole), Proves.AS_BEFORE)
    yield Payload("103s first", _once(b"HTTP/1.1 103 X\r\n\r\n" * 20 + whole), Proves.AS_BEFORE)
    yield Payload("a letter outside ASCII", _once(plain(answer, head="x-é: é\r\n")), Proves.AS_BEFORE)
    yield Payload("cookies", _once(plain(answer, head=f"set-cookie: a={'b' * 900}; path=/\r\n" * 50)), Proves.AS_BEFORE)
    yield Payload("calm for ever", _once(plain(answer, head=f"retry-after: {'9' * 400}\r\n")), Proves.AS_BEFORE)
    yield Payload(
        "another answer after it", _once(whole + plain(answer, b'{"x":1}', 200)), Proves.AS_BEFORE, stays=True
    )
    places = ("http://localhost:%PORT%/elsewhere", "/elsewhere", "//localhost:%PORT%/", "http://[::1", "file:///x", "")
    for code in (301, 302, 303, 307, 308):
        for place in places:
            yield Payload(f"{code} to {place}", _once(plain(answer, status=code, head=f"location: {place}\r\n")))


def _of_length(answer: Answer) -> Iterator[Payload]:
    """Lengths that are not, and bodies without an end."""
    start = f"HTTP/1.1 {answer.status} X\r\n".encode()
    chunked = start + b"transfer-encoding: chunked\r\n\r\n"
    size = len(answer.body)
    for text in ("-1", "x", "1e3", "+5", "9" * 30, "0x5", f"{size}, {size + 1}", "１"):
        # Without a body its end is not missed.
        yield Payload(
            f"a length of {text[:12]}", _once(start + f"content-length: {text}\r\n\r\n".encode() + answer.body)
        )
    if not size:
        return
    yield Payload(
        "two lengths", _once(start + f"content-length: {size}\r\ncontent-length: 3\r\n\r\n".encode() + answer.body)
    )
    yield Payload(
        "a length that is too long", _once(start + f"content-length: {size + 1}\r\n\r\n".encode() + answer.body)
    )
    yield Payload(
        "a length that is too short", _once(start + f"content-length: {size - 1}\r\n\r\n".encode() + answer.body)
    )
    yield Payload("chunks without an end", _for_ever(chunked, b"10000\r\n" + b" " * 65_536 + b"\r\n"), heavy=True)
    yield Payload("chunks of one byte", _for_ever(chunked, b"1\r\n \r\n" * 5_000), heavy=True)
    yield Payload("chunks with endless extras", _for_ever(chunked, b"1;x=" + b"x" * 50_000 + b"\r\n \r\n"), heavy=True)
    yield Payload("a chunk that breaks off", _once(chunked + f"{size:x}\r\n".encode() + answer.body[:-1]))
    yield Payload("a chunk without the last", _once(chunked + f"{size:x}\r\n".encode() + answer.body + b"\r\n"))
    yield Payload("a chunk of no size", _once(chunked + b"zz\r\n" + answer.body + b"\r\n0\r\n\r\n"))
    yield Payload("a chunk of all sizes", _once(chunked + b"f" * 30 + b"\r\n" + answer.body))
    yield Payload("endless trailers", _for_ever(chunked + b"0\r\n", b"x: y\r\n" * 10_000), heavy=True)
    yield Payload("a body without an end", _for_ever(start + b"\r\n" + answer.body.rstrip(), b" " * _BLOCK), heavy=True)
    yield Payload(
        "a length of 10 GB", _for_ever(start + b"content-length: 10000000000\r\n\r\n", b" " * _BLOCK), heavy=True
    )
    more = start + f"content-length: {160 * _BLOCK + size}\r\n\r\n".encode()
    yield Payload("10 MB before the answer", _once(more, *([b" " * _BLOCK] * 160), answer.body), heavy=True)
    yield Payload("a gzip bomb", lambda: iter([start + b"content-encoding: gzip\r\n\r\n", *_bomb(31)]), heavy=True)
    yield Payload(
        "a deflate bomb", lambda: iter([start + b"content-encoding: deflate\r\n\r\n", *_bomb(15)]), heavy=True
    )
    yield Payload("gzip that is none", _once(plain(answer, head="content-encoding: gzip\r\n")))
    yield Payload("gzip unasked", lambda: iter([_gzipped(answer)]), Proves.AS_BEFORE)


def frames_of(answer: Answer) -> Iterator[Payload]:
    """What comes over a WebSocket that stands, after all that should."""
    said = answer.body.splitlines()
    last = said[-1]
    one_off = {
        "garbage": bytes(range(256)) * 16,
        "an opcode of nothing": frame(3, b"x"),
        "a control of nothing": frame(11, b""),
        "reserved bits": frame(2, last, first=0xF2),
        "a compressed message": frame(2, last, first=0xC2),
        "a masked message": b"\x82\x84\x00\x00\x00\x00null",
        "the rest of nothing": frame(0, last),
        "two beginnings": frame(2, b"a", first=0x02) + frame(2, b"b"),
        "a ping in pieces": frame(9, b"x", first=0x09),
        "a long ping": frame(9, b"x" * 126),
        "text that is no UTF-8": frame(1, b"\xff\xfe"),
        "half a frame": frame(2, last)[:-1],
        "a length with a sign": b"\x82\x7f\xff" + bytes(7),
        "a length of 4 EB": b"\x82\x7f\x40" + bytes(7),
        "no message": frame(2, b""),
        "null": frame(2, b"null"),
        "a list": frame(2, b"[]"),
        "deep lists": frame(2, b'{"stream":"trade_updates","data":' + b"[" * _DEEP + b"]" * _DEEP + b"}"),
        "deep and unclosed": frame(2, b"[" * _DEEP),
        "text": frame(1, last),
        "a pong unasked": frame(10, b"x"),
        "a close of one byte": frame(8, b"\x03"),
        "a close that is no UTF-8": frame(8, b"\x03\xe8\xff"),
        "more after a close": frame(8, b"\x03\xe8") + frame(2, last),
    }
    for code in (
        0,
        999,
        1000,
        1001,
        1002,
        1003,
        1005,
        1006,
        1007,
        1008,
        1009,
        1011,
        1012,
        1013,
        1015,
        4000,
        4999,
        65535,
    ):
        one_off[f"close {code}"] = frame(8, code.to_bytes(2) + b"x")
    for name, raw in one_off.items():
        for stays in (False, True):
            yield Payload(
                f"{name}{', then silence' if stays else ''}", _once(raw), Proves.AS_BEFORE, stays, messages=lambda: said
            )
    long = {
        "a message without an end": _for_ever(b"\x82\x7f\x40" + bytes(7), bytes(_BLOCK)),
        "pieces without an end": _for_ever(frame(2, b"x", first=0x02), frame(0, bytes(_BLOCK), first=0x00)),
        "10 MB": _once(b"\x82\x7f" + (160 * _BLOCK).to_bytes(8), *([bytes(_BLOCK)] * 160)),
    }
    yield from (Payload(n, long[n], Proves.AS_BEFORE, heavy=True, messages=lambda: said) for n in long)
    floods = {"pings": frame(9, b"x" * 100), "pongs": frame(10, b"x"), "others": frame(2, b'{"stream":"x","data":{}}')}
    for name, raw in floods.items():
        flood = _for_ever(b"", raw * 100, 0.001)
        yield Payload(f"a flood of {name}", flood, Proves.AS_BEFORE, heavy=True, floods=True, messages=lambda: said)


def _bomb(bits: int) -> Iterator[bytes]:
    """A gigabyte of zeros in a megabyte: the same block again and again."""
    press = zlib.compressobj(9, zlib.DEFLATED, bits)
    zeros = bytes(1_000_000)
    yield press.compress(zeros) + press.flush(zlib.Z_FULL_FLUSH)
    block = press.compress(zeros) + press.flush(zlib.Z_FULL_FLUSH)
    yield from (block * 100 for _ in range(10))


def _gzipped(answer: Answer) -> bytes:
    press = zlib.compressobj(9, zlib.DEFLATED, 31)
    return plain(answer, press.compress(answer.body) + press.flush(), head="content-encoding: gzip\r\n")


def _of_time(answer: Answer) -> Iterator[Payload]:
    """Answers that do not come."""
    whole = plain(answer)
    yield Payload("silence", _once(), stays=True, slow=True)
    yield Payload("silence in the head", _once(whole[:25]), stays=True, slow=True)
    yield Payload("a slow head", _for_ever(b"HTTP/1.1 200 X\r\nx: ", b"x", _DRIP_SECONDS), slow=True)
    if answer.body:
        yield Payload("silence in the body", _once(whole[:-1]), stays=True, slow=True)
        yield Payload("a slow body", lambda: (p for b in whole for p in (bytes([b]), _DRIP_SECONDS)), slow=True)


def _of_status(route: Route, answer: Answer) -> Iterator[Payload]:
    """The same words under another status."""
    for status in _STATUSES:
        if status not in route.definite and status != answer.status:
            yield Payload(f"as {status}", _once(plain(answer, status=status)))


def _of_body(answer: Answer) -> Iterator[Payload]:
    """Bodies that are no JSON, or not all of it."""
    page = b"<!doctype html><html><title>Maintenance</title><body>Back soon</body></html>"
    size = len(answer.body.rstrip())
    for keep in sorted({0, 1, size // 3, size // 2, size - 2, size - 1}):
        yield Payload(f"{keep} bytes of the body", _once(plain(answer, answer.body[:keep])))
        yield Payload(f"{keep} bytes of the body, then gone", _once(plain(answer)[: keep - len(answer.body)]))
    others = {
        "a page": page,
        "a page of 900 KB": page * (_LONG // len(page)),
        "null": b"null",
        "a list": b"[]",
        "an empty object": b"{}",
        "a text": b'"ok"',
        "a number": b"1e400",
        "NaN": b"NaN",
        "deep lists": b"[" * _DEEP + b"]" * _DEEP,
        "unclosed lists": b"[" * _DEEP,
        "deep objects": b'{"a":' * _DEEP + b"1" + b"}" * _DEEP,
        "deep under an unknown name": b'{"unheard":' + b"[" * _DEEP + b"]" * _DEEP + b"," + answer.body[1:],
        "UTF-16": answer.body.decode().encode("utf-16"),
        "not UTF-8": answer.body.replace(b'"', b'"\xff', 1),
        "another's words": b'{"error":{"message":"not found","code":404}}',
    }
    yield from (Payload(name, _once(plain(answer, others[name]))) for name in others)
    yield Payload("a byte order mark", _once(plain(answer, b"\xef\xbb\xbf" + answer.body)), Proves.AS_BEFORE)
    yield Payload("more after it", _once(plain(answer, answer.body + b"\n{}x")), Proves.AS_BEFORE)
    yield Payload("in two parts", _once(plain(answer)[:-3], 0.01, plain(answer)[-3:]), Proves.AS_BEFORE)


# Raw values that nothing in an answer can be.
_NEVER: Final[dict[str, bytes]] = {
    "NaN": b"NaN",
    "Infinity": b"Infinity",
    "-Infinity": b"-Infinity",
    "1e400": b"1e400",
    "1e-400": b"1e-400",
    "41 digits": b"9" * 41,
    "5000 digits": b"9" * 5000,
    "a list": b"[]",
    "an object": b"{}",
    "nothing": b"",
    "deep lists": b"[" * _DEEP + b"]" * _DEEP,
    "deep objects": b'{"a":' * _DEEP + b"1" + b"}" * _DEEP,
    "no UTF-8": b'"\xff\xfe"',
    "raw NUL": b'"a\x00b"',
    "NUL": b'"a\\u0000b"',
    "half a pair": b'"\\ud800x"',
    "900 KB": b'"' + b"A" * _LONG + b'"',
    "an open text": b'"abc',
}
_NO_NUMBERS: Final = (
    *("NaN", "sNaN", "Infinity", "-Infinity", "1e400", "1E-400", "1E+40", "1_0", "\\u0661\\u0662", "0x10", "1,5"),
    *("", ".", "--1", "1.0000000000000000001", "9" * 41, "9" * 5000, "1 000", "12 USD", "-0.5"),
)
_NO_TIMES: Final = (
    *(
        "",
        "yesterday",
        "2026-02-30T00:00:00Z",
        "2026-11-02T25:00:00Z",
        "10000-01-01T00:00:00Z",
        "-0001-01-01T00:00:00Z",
    ),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-11-02T15:30:00", "1e400", "0000-00-00T00:00:00Z"),
)


def _of_json(samples: Samples, route: Route, answer: Answer) -> Iterator[Payload]:
    """Made when they are sent: some are long."""
    for what, body, proves in _tampered(samples, route, answer):
        yield Payload(what, lambda body=body: iter([plain(answer, body())]), proves)  # type: ignore[misc]


def _tampered(samples: Samples, route: Route, answer: Answer) -> Iterator[tuple[str, Callable[[], bytes], Proves]]:
    """Each value of each document replaced by what it cannot be."""
    lines = answer.body.splitlines()
    for number, line in enumerate(lines):
        for path, value in _values(json.loads(line)):
            where = ".".join(map(str, path))
            name = next((str(step) for step in reversed(path) if isinstance(step, str)), "")
            for what, raw, proves in _instead(samples, route, name, value):
                yield f"{where}: {what}", _Tampered(tuple(lines), number, path, raw).body, proves


@dataclass(frozen=True, slots=True)
class _Tampered:
    """A body with raw bytes in the place of a value; None takes the value out."""

    lines: tuple[bytes, ...]
    number: int
    path: Path
    raw: bytes | None

    def body(self) -> bytes:
        """As it is sent."""
        document = json.loads(self.lines[self.number])
        place = document
        for step in self.path[:-1]:
            place = place[step]
        last = self.path[-1]
        if self.raw is None:
            del place[last]
        else:
            place[last] = _HOLE
        line = json.dumps(document).encode()
        line = line if self.raw is None else line.replace(f'"{_HOLE}"'.encode(), self.raw)
        lines = [*self.lines[: self.number], line, *self.lines[self.number + 1 :]]
        return b"\n".join(lines) + (b"\n" if len(lines) > 1 else b"")


def _values(document: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if path:
        yield path, document
    inside = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for step, value in inside:
        yield from _values(value, (*path, step))


def _instead(samples: Samples, route: Route, name: str, value: Any) -> Iterator[tuple[str, bytes | None, Proves]]:
    """Raw values to put in the place of one, and what they prove."""
    tampered = Proves.NOTHING if name in samples.proofs else Proves.AS_BEFORE
    place = f"{route.name}.{name}"
    missing = Proves.THE_KIND if {name, place} & samples.optional or value is None else tampered
    # One of a list may as well not be there.
    yield "missing", None, Proves.THE_KIND if isinstance(value, dict) else missing
    yield "null", b"null", missing
    for what, raw in _NEVER.items():
        is_text = what in {"NUL", "half a pair", "900 KB"}
        emptied = what in {"a list", "an object", "nothing"} and isinstance(value, list | dict)
        free = name in samples.free and name not in samples.proofs and is_text
        yield what, raw, Proves.THE_KIND if free or emptied or value is None else tampered
    if place in samples.echoes and value is not None:
        yield "another's", json.dumps(samples.echoes[place]).encode(), Proves.NOTHING
    if isinstance(value, bool):
        yield from ((text, text.encode(), tampered) for text in ("2", "-1", '"maybe"'))
    elif isinstance(value, int):
        yield from ((text[:20], text.encode(), tampered) for text in ("-1", "1.5", "1e3", str(2**63), "true", '"x"'))
    elif isinstance(value, str) and name not in samples.free:
        unheard = Proves.THE_KIND if {name, place} & samples.optional else tampered
        yield from _instead_of_text(value, tampered, unheard, signed=place in samples.signed)


def _instead_of_text(
    text: str, proves: Proves, unheard: Proves, *, signed: bool
) -> Iterator[tuple[str, bytes | None, Proves]]:
    number = _number(text)
    if number is not None:
        exponent = f"{number.scaleb(1):f}e-1"
        yield "an exponent", f'"{exponent}"'.encode(), Proves.AS_BEFORE if proves is not Proves.NOTHING else proves
        wrong = tuple(each for each in _NO_NUMBERS if not (signed and each == "-0.5"))
    elif text[:4].isdigit() and "T" in text:
        wrong = _NO_TIMES
    else:
        wrong, proves = ("HOSTILE", "", " ", "null"), unheard
    yield from ((repr(each[:20]), f'"{each}"'.encode(), proves) for each in wrong)
    yield "true", b"true", proves
    # A number that is none of a text may be read as what it says.
    yield "1.5", b"1.5", Proves.THE_KIND if number is not None and proves is not Proves.NOTHING else proves


def _number(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except InvalidOperation:
        return None
