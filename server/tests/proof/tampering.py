"""What one who may write to the database could do to a sealed object."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from openbell_server.domain.access.credentials import SealedSecrets, SecretPlace

Objects = Mapping[SecretPlace, SealedSecrets]


def _flip(random: Random, data: bytes) -> bytes:
    place = random.randrange(len(data) * 8)
    changed = bytearray(data)
    changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


def _flip_text(random: Random, text: str) -> str:
    # The lowest bits, so that it stays a text without a zero byte.
    place = random.randrange(len(text))
    return text[:place] + chr(ord(text[place]) ^ 1 << random.randrange(4)) + text[place + 1 :]


def _cut(random: Random, data: bytes) -> bytes:
    return data[: random.randrange(len(data))]


def _splice(random: Random, ours: bytes, theirs: bytes) -> bytes:
    place = random.randrange(1, len(ours) - 1)
    return ours[:place] + theirs[place:]


def _other(random: Random, place: SecretPlace, objects: Objects, *same: str) -> SealedSecrets:
    """The object of another place that shares these parts with ours, and not the next one."""
    parts = ("organization_id", "account_id", "credential_id", "version")
    differs = parts[len(same)]
    found = [
        each
        for each in objects
        if all(getattr(each, part) == getattr(place, part) for part in same)
        and getattr(each, differs) != getattr(place, differs)
    ]
    return objects[random.choice(found)]


_SAME = ("organization_id", "account_id", "credential_id")
_CHANGES: dict[str, Callable[[Random, SecretPlace, Objects, str], SealedSecrets]] = {
    "a bit of what is sealed": lambda r, p, o, _: replace(o[p], sealed=_flip(r, o[p].sealed)),
    "a bit of the wrapped key": lambda r, p, o, _: replace(o[p], wrapped_key=_flip(r, o[p].wrapped_key)),
    "a bit of the key's id": lambda r, p, o, _: replace(o[p], key_id=_flip_text(r, o[p].key_id)),
    "the id of another key": lambda _, p, o, other_key: replace(o[p], key_id=other_key),
    "another organization's": lambda r, p, o, _: _other(r, p, o),
    "another account's": lambda r, p, o, _: _other(r, p, o, *_SAME[:1]),
    "another credential's": lambda r, p, o, _: _other(r, p, o, *_SAME[:2]),
    "another version's": lambda r, p, o, _: _other(r, p, o, *_SAME),
    "sealed, cut": lambda r, p, o, _: replace(o[p], sealed=_cut(r, o[p].sealed)),
    "wrapped key, cut": lambda r, p, o, _: replace(o[p], wrapped_key=_cut(r, o[p].wrapped_key)),
    "sealed of another version": lambda r, p, o, _: replace(o[p], sealed=_other(r, p, o, *_SAME).sealed),
    "wrapped key of another version": lambda r, p, o, _: replace(o[p], wrapped_key=_other(r, p, o, *_SAME).wrapped_key),
    "sealed, spliced": lambda r, p, o, _: replace(o[p], sealed=_splice(r, o[p].sealed, _other(r, p, o, *_SAME).sealed)),
    "wrapped key, spliced": lambda r, p, o, _: replace(
        o[p], wrapped_key=_splice(r, o[p].wrapped_key, _other(r, p, o, *_SAME).wrapped_key)
    ),
    "sealed, longer": lambda _, p, o, __: replace(o[p], sealed=o[p].sealed + b"\0"),
    "wrapped key, longer": lambda _, p, o, __: replace(o[p], wrapped_key=o[p].wrapped_key + b"\0"),
}
KINDS = tuple(_CHANGES)


def tamper(kind: str, random: Random, place: SecretPlace, objects: Objects, other_key: str) -> SealedSecrets:
    """The object of a place, changed; the other key is one that wraps nothing yet."""
    return _CHANGES[kind](random, place, objects, other_key)
