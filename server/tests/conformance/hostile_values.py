"""Values that cannot be, in the place of those that a broker tells, and what may be concluded all the same."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import Enum, auto
from typing import Any, Final

from conformance.samples import Answer, Route, Samples

Path = tuple[str | int, ...]

# As long as an answer may be, within what is listened to; and as deep as none should be.
LONG: Final = 900_000
DEEP: Final = 100_000
_HOLE: Final = "@@"


class Proves(Enum):
    """What may be concluded."""

    # Only that nothing is known.
    NOTHING = auto()
    # Nothing, or exactly what the answer said before it was tampered with.
    AS_BEFORE = auto()
    # Nothing, or something of the same kind: what was changed is free.
    THE_KIND = auto()


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
    "deep lists": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "no UTF-8": b'"\xff\xfe"',
    "raw NUL": b'"a\x00b"',
    "NUL": b'"a\\u0000b"',
    "half a pair": b'"\\ud800x"',
    "900 KB": b'"' + b"A" * LONG + b'"',
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


def tampered(samples: Samples, route: Route, answer: Answer) -> Iterator[tuple[str, Callable[[], bytes], Proves]]:
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
    place = f"{route.name}.{name}"
    is_proof = bool({name, place} & samples.proofs)
    otherwise = Proves.NOTHING if is_proof else Proves.AS_BEFORE
    missing = Proves.THE_KIND if {name, place} & samples.optional or value is None else otherwise
    # One of a list may as well not be there.
    yield "missing", None, Proves.THE_KIND if isinstance(value, dict) else missing
    yield "null", b"null", missing
    for what, raw in _NEVER.items():
        is_text = what in {"NUL", "half a pair", "900 KB"}
        emptied = what in {"a list", "an object", "nothing"} and isinstance(value, list | dict)
        free = name in samples.free | samples.optional and not is_proof and is_text
        yield what, raw, Proves.THE_KIND if free or emptied or value is None else otherwise
    if place in samples.echoes and value is not None:
        yield "another's", json.dumps(samples.echoes[place]).encode(), Proves.NOTHING
    if isinstance(value, bool):
        yield from ((text, text.encode(), otherwise) for text in ("2", "-1", '"maybe"'))
    elif isinstance(value, int):
        yield from ((text[:20], text.encode(), otherwise) for text in ("-1", "1.5", "1e3", str(2**63), "true", '"x"'))
    elif isinstance(value, str) and name not in samples.free:
        unheard = Proves.THE_KIND if {name, place} & samples.optional else otherwise
        yield from _instead_of_text(value, otherwise, unheard, signed=place in samples.signed)


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
