"""Reads and writes the lines of an exported audit log."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from openbell_server.domain import strict_json
from openbell_server.domain.access.audit_chain import FIELDS, Closed, Entry, Head, Verification
from openbell_server.domain.errors import OperatorError

FIRST_LINE: Final = {"kind": "audit_log", "format": 1}
# An entry has two texts, each of one object.
LINE_BYTES_MAX: Final = 16 * 1024 * 1024
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_HEAD: Final = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")
_HEAD_KEYS: Final = {"kind", "organization_id", "number", "hash"}
_ENTRY_KEYS: Final = _HEAD_KEYS | set(FIELDS)


def line_of(part: Entry | Closed) -> dict[str, Any] | None:
    """None for a log of which no head is stored: `verify` finds that its line is missing."""
    if isinstance(part, Closed):
        if part.head is None:
            return None
        kind, number, digest, fields = "head", part.head.number, part.head.hash, {}
    else:
        kind, number, digest, fields = "entry", part.number, part.hash, dict(zip(FIELDS, part.fields, strict=True))
    return {"kind": kind, "organization_id": part.organization_id, "number": number, **fields, "hash": digest.hex()}


def last_line(entries: int, heads: int) -> dict[str, object]:
    return {"kind": "end", "entries": entries, "heads": heads}


def read_parts(file: Path) -> Iterator[Entry | Closed]:
    """The entries and heads of a complete export. Raises OperatorError if the file is none."""
    counted, ended = {"entry": 0, "head": 0}, None
    for place, line in _lines(file):
        if place == 1:
            if line != FIRST_LINE:
                raise _not_a_line(file, 1)
        elif ended is not None:
            raise _not_a_line(file, place)
        elif line.get("kind") == "end":
            ended = line
        else:
            part = _part(line)
            if part is None:
                raise _not_a_line(file, place)
            counted[line["kind"]] += 1
            yield part
    if ended != last_line(counted["entry"], counted["head"]):
        raise OperatorError(f"{file} is not a complete export: its last line is missing or counts other lines.")


def known_heads(head: str | None, organization: UUID | None) -> Verification:
    """A verification that compares with the heads exported before: those in a file, or one as NUMBER:HASH."""
    if head is None:
        return Verification()
    match = _HEAD.fullmatch(head.strip().lower())
    if match is not None:
        return Verification(known_of_any=Head(int(match[1]), bytes.fromhex(match[2])))
    known = {}
    for place, line in _lines(Path(head)):
        if line.get("kind") == "head":
            part = _part(line)
            if not isinstance(part, Closed) or part.head is None:
                raise _not_a_line(Path(head), place)
            if organization is None or part.organization_id == str(organization):
                known[part.organization_id] = part.head
    if not known:
        raise OperatorError(f"{head} has no line with a head: name an export, or NUMBER:HASH.")
    return Verification(known)


def _lines(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        with file.open("rb") as opened:
            place = 0
            while text := opened.readline(LINE_BYTES_MAX):
                place += 1
                try:
                    line = strict_json.decode(text)
                except ValueError:
                    line = None
                if not isinstance(line, dict):
                    raise _not_a_line(file, place)
                yield place, line
    except OSError as error:
        raise OperatorError(
            f"{file} cannot be read ({error.strerror}): name a file that `audit export` wrote."
        ) from error


def _part(line: dict[str, Any]) -> Entry | Closed | None:
    kind, organization_id, number, digest = (line.get(name) for name in ("kind", "organization_id", "number", "hash"))
    if not isinstance(organization_id, str) or type(number) is not int:
        return None
    if not isinstance(digest, str) or not _HASH.fullmatch(digest):
        return None
    if kind == "head" and set(line) == _HEAD_KEYS:
        return Closed(organization_id, Head(number, bytes.fromhex(digest)))
    fields = tuple(line.get(name) for name in FIELDS)
    if kind == "entry" and set(line) == _ENTRY_KEYS and all(each is None or isinstance(each, str) for each in fields):
        return Entry(organization_id, number, bytes.fromhex(digest), fields)
    return None


def _not_a_line(file: Path, place: int) -> OperatorError:
    return OperatorError(f"Line {place} of {file} is not a line of an exported audit log: export it again.")
