"""Hostile answers, made of an answer that a broker would give: each says what may still be concluded from it."""

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from conformance.hostile_frames import frame
from conformance.hostile_values import DEEP, LONG, Proves, tampered
from conformance.samples import Answer, Route, Samples

# Bytes to write, or seconds to wait; some never end.
Pieces = Callable[[], Iterator[bytes | float]]

_BLOCK: Final = 65_536
_DRIP_SECONDS: Final = 0.1
_STATUSES: Final = (
    *(200, 201, 202, 203, 204, 205, 206, 226, 299, 300, 304, 305, 306, 399, 400, 401, 402, 403, 404, 405, 406, 408),
    *(409, 410, 411, 412, 413, 415, 418, 421, 422, 423, 425, 426, 428, 429, 431, 451, 499),
    *(500, 501, 502, 503, 504, 505, 507, 508, 511, 520, 522, 524, 530, 599, 600, 999),
)


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
        said = [*_of_body(answer), *_of_json(samples, route, answer)]
        # Where the status says it all, the rest is only words.
        is_said = answer.status in route.definite
        made += [replace(each, proves=Proves.THE_KIND) for each in said] if is_said else said
    return made


def _of_messages(samples: Samples, route: Route, answer: Answer) -> Iterator[Payload]:
    for what, body, proves in tampered(samples, route, answer):
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
    one_off = _wrong_frames(said[-1])
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


def _wrong_frames(last: bytes) -> dict[str, bytes]:
    """By name; some are of the last message that was right."""
    return {
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
        "deep lists": frame(2, b'{"stream":"trade_updates","data":' + b"[" * DEEP + b"]" * DEEP + b"}"),
        "deep and unclosed": frame(2, b"[" * DEEP),
        "text": frame(1, last),
        "a pong unasked": frame(10, b"x"),
        "a close of one byte": frame(8, b"\x03"),
        "a close that is no UTF-8": frame(8, b"\x03\xe8\xff"),
        "more after a close": frame(8, b"\x03\xe8") + frame(2, last),
    }


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
        "a page of 900 KB": page * (LONG // len(page)),
        "null": b"null",
        "a list": b"[]",
        "an empty object": b"{}",
        "a text": b'"ok"',
        "a number": b"1e400",
        "NaN": b"NaN",
        "deep lists": b"[" * DEEP + b"]" * DEEP,
        "unclosed lists": b"[" * DEEP,
        "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
        "deep under an unknown name": b'{"unheard":' + b"[" * DEEP + b"]" * DEEP + b"," + answer.body[1:],
        "UTF-16": answer.body.decode().encode("utf-16"),
        "not UTF-8": answer.body.replace(b'"', b'"\xff', 1),
        "another's words": b'{"error":{"message":"not found","code":404}}',
    }
    lists = json.loads(answer.body.splitlines()[0])
    for name, body in others.items():
        is_empty = name == "a list" and isinstance(lists, list)
        # What is passed over may be in any alphabet.
        is_name = name == "not UTF-8"
        proves = Proves.THE_KIND if is_empty else Proves.AS_BEFORE if is_name else Proves.NOTHING
        yield Payload(name, _once(plain(answer, body)), proves)
    yield Payload("a byte order mark", _once(plain(answer, b"\xef\xbb\xbf" + answer.body)), Proves.AS_BEFORE)
    yield Payload("more after it", _once(plain(answer, answer.body + b"\n{}x")), Proves.AS_BEFORE)
    yield Payload("in two parts", _once(plain(answer)[:-3], 0.01, plain(answer)[-3:]), Proves.AS_BEFORE)


def _of_json(samples: Samples, route: Route, answer: Answer) -> Iterator[Payload]:
    """Made when they are sent: some are long."""
    for what, body, proves in tampered(samples, route, answer):
        yield Payload(what, lambda body=body: iter([plain(answer, body())]), proves)  # type: ignore[misc]
