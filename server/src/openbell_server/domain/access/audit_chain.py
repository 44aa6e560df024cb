"""Verifies the hash chain of each organization's audit log, and names what was done to a broken one."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from openbell_server.domain.hash_chains import CHAIN_START, canonical_bytes

FLAWS_MAX: Final = 1000
# What the hash covers after the organization and the number, in this order.
FIELDS: Final = (
    *("audit_id", "occurred_at", "login", "principal_type", "principal_id", "operation", "object_id", "before"),
    "after",
)


class Tampering(StrEnum):
    CHANGED = "changed"
    REMOVED = "removed"
    INSERTED = "inserted"
    SWAPPED = "swapped"
    TAIL_REMOVED = "tail removed"


@dataclass(frozen=True, slots=True)
class Head:
    """The number and the hash of an organization's last entry, at some time."""

    number: int
    hash: bytes

    def __str__(self) -> str:
        return f"{self.number}:{self.hash.hex()}"


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as it is stored: the hash and the fields may not fit together."""

    organization_id: str
    number: int
    hash: bytes
    # The values of FIELDS.
    fields: tuple[str | None, ...]

    def hash_after(self, previous: bytes, number: int) -> bytes:
        """What its hash would be with this number, after an entry with this hash."""
        return hashlib.sha256(previous + canonical_bytes(self.organization_id, str(number), *self.fields)).digest()


@dataclass(frozen=True, slots=True)
class Closed:
    """Follows the last entry of an organization: the head that is stored, or None if none is."""

    organization_id: str
    head: Head | None


@dataclass(frozen=True, slots=True)
class Flaw:
    organization_id: str
    number: int
    tampering: Tampering
    what: str

    def __str__(self) -> str:
        return f"organization {self.organization_id}, entry {self.number}: {self.tampering}: {self.what}"


@dataclass(slots=True)
class Verification:
    """Takes each organization's entries in the order of their numbers, then its head: one pass, little memory.

    A person who can write the whole log can compute every hash again. `known`, heads exported before, detect that.
    """

    known: Mapping[str, Head] = field(default_factory=dict)
    # A head of which the organization is not known: one organization must have had it.
    known_of_any: Head | None = None
    entries: int = 0
    heads: dict[str, Head] = field(default_factory=dict)
    # The number of all flaws; `flaws` has the first FLAWS_MAX.
    found: int = 0
    flaws: list[Flaw] = field(default_factory=list)
    _open: dict[str, "_Chain"] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        return self.found == 0

    def take(self, part: Entry | Closed) -> None:
        chain = self._open.setdefault(part.organization_id, _Chain(self, part.organization_id))
        if isinstance(part, Entry):
            self.entries += 1
            chain.take(part)
        else:
            del self._open[part.organization_id]
            chain.end(part.head)
            self.heads[part.organization_id] = Head(chain.number, chain.hashes[0])

    def end(self) -> None:
        """After the last organization."""
        for organization_id in list(self._open):
            self.take(Closed(organization_id, None))
        for organization_id, head in self.known.items():
            if organization_id not in self.heads:
                self.blame(organization_id, head.number, Tampering.TAIL_REMOVED, f"no entry is left; there was {head}")
        if self.known_of_any is not None:
            what = f"no entry has the known head {self.known_of_any}"
            self.blame("unknown", self.known_of_any.number, Tampering.TAIL_REMOVED, what)

    def blame(self, organization_id: str, number: int, tampering: Tampering, what: str) -> None:
        self.found += 1
        if len(self.flaws) < FLAWS_MAX:
            self.flaws.append(Flaw(organization_id, number, tampering, what))


class _Chain:
    """Follows one organization's entries; an entry that does not fit is explained with the help of the next one."""

    def __init__(self, result: Verification, organization_id: str) -> None:
        self._result = result
        self._organization_id = organization_id
        self._known = result.known.get(organization_id)
        # As they were numbered when they were written; stored numbers differ by `shift` after entries were inserted.
        self.number = 0
        self._shift = 0
        # What the hash of the last entry can have been: the stored one first, then the computed one if it differs.
        self.hashes: tuple[bytes, ...] = (CHAIN_START,)
        self._unexplained: Entry | None = None

    def take(self, entry: Entry) -> None:
        wrong, self._unexplained = self._unexplained, None
        if wrong is not None:
            self._explain(wrong, entry)
        elif entry.number == self.number + 1 + self._shift and self._continues(entry):
            self._accept(entry.hash)
        else:
            self._unexplained = entry

    def end(self, head: Head | None) -> None:
        wrong, self._unexplained = self._unexplained, None
        if wrong is not None and head is not None and head.number == self.number and head.hash in self.hashes:
            self._blame(wrong.number, Tampering.INSERTED, "it was added after the last entry")
        elif wrong is not None:
            self._explain_alone(wrong)
        if self._known is not None and self._known.number > self.number:
            what = f"the log ends at {self.number}, and the known head is {self._known}"
            self._blame(self.number + 1, Tampering.TAIL_REMOVED, what)
        elif head is None:
            self._blame(self.number, Tampering.CHANGED, "the head of the log is missing")
        elif head.number > self.number:
            what = f"the log ends at {self.number}, and its head is {head}"
            self._blame(self.number + 1, Tampering.TAIL_REMOVED, what)
        elif head.number < self.number:
            self._blame(
                head.number + 1, Tampering.INSERTED, f"the log goes on to {self.number}, and its head is {head}"
            )
        elif head.hash not in self.hashes:
            self._blame(head.number, Tampering.CHANGED, f"the head of the log is {head}, which the entries do not give")

    def _explain(self, wrong: Entry, following: Entry) -> None:
        number = self.number + 1
        for previous in self.hashes:
            first = following.hash_after(previous, number)
            second = wrong.hash_after(first, number + 1)
            if {first, second} == {wrong.hash, following.hash}:
                self._blame(number, Tampering.SWAPPED, f"it and entry {number + 1} were exchanged")
                self._accept(first)
                self._accept(second)
                return
            if first == following.hash:
                self._blame(wrong.number, Tampering.INSERTED, f"it was not there when entry {number} was written")
                self._shift = following.number - number
                self._accept(first)
                return
        self._explain_alone(wrong)
        self.take(following)

    def _explain_alone(self, wrong: Entry) -> None:
        number, stored = self.number + 1, wrong.number - self._shift
        if stored < number:
            self._blame(wrong.number, Tampering.INSERTED, f"entry {number + self._shift} should be here")
        elif stored > number:
            last = "" if stored == number + 1 else f" and those up to {stored - 1}"
            self._blame(number, Tampering.REMOVED, f"it{last} should be before entry {wrong.number}")
            self.number = stored - 1
            self._accept(wrong.hash)
        else:
            self._blame(number, Tampering.CHANGED, "its hash is not that of its fields and of the entry before it")
            computed = (wrong.hash_after(previous, number) for previous in self.hashes[:2])
            self._accept(*dict.fromkeys((wrong.hash, *computed)))

    def _continues(self, entry: Entry) -> bool:
        return any(entry.hash_after(previous, self.number + 1) == entry.hash for previous in self.hashes)

    def _accept(self, *hashes: bytes) -> None:
        self.number += 1
        self.hashes = hashes
        result = self._result
        if result.known_of_any == Head(self.number, hashes[0]):
            result.known_of_any = None
        known = self._known
        if known is not None and known.number == self.number and known.hash not in hashes:
            self._blame(self.number, Tampering.CHANGED, f"the known head is {known}, and its hash is {hashes[0].hex()}")

    def _blame(self, number: int, tampering: Tampering, what: str) -> None:
        self._result.blame(self._organization_id, number, tampering, what)
