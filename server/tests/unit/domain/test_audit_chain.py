"""The audit log's chain: an intact one passes, and each way to alter it is found and named."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from openbell_server.domain.access.audit_chain import FIELDS, Closed, Entry, Head, Tampering, Verification
from openbell_server.domain.hash_chains import CHAIN_START

ENTRIES = 20
ONE, TWO = "11111111-0000-7000-8000-000000000000", "22222222-0000-7000-8000-000000000000"
Log = list[Entry]


def a_log(organization_id: str = ONE, entries: int = ENTRIES) -> Log:
    log: Log = []
    for number in range(1, entries + 1):
        before = None if number % 3 == 0 else f'{{"n": {number}}}'
        fields = (*(f"{name} {number}" for name in FIELDS[:-2]), before, f'{{"n": {number}, "é": "–"}}')
        unsealed = Entry(organization_id, number, b"", fields)
        log.append(replace(unsealed, hash=unsealed.hash_after(log[-1].hash if log else CHAIN_START, number)))
    return log


def head_of(log: Log) -> Head:
    return Head(len(log), log[-1].hash)


def sealed_again(log: Iterable[Entry]) -> Log:
    """As somebody writes it who can compute every hash."""
    sealed: Log = []
    for number, entry in enumerate(log, 1):
        digest = entry.hash_after(sealed[-1].hash if sealed else CHAIN_START, number)
        sealed.append(replace(entry, number=number, hash=digest))
    return sealed


def verified(log: Log, head: Head | None, **known: object) -> Verification:
    result = Verification(**known)  # type: ignore[arg-type] # of mixed types, by name
    for entry in log:
        result.take(entry)
    result.take(Closed(ONE, head))
    result.end()
    return result


def found(log: Log, head: Head | None = None) -> list[tuple[int, Tampering]]:
    result = verified(log, head or head_of(a_log()))
    assert result.found == len(result.flaws)
    return [(flaw.number, flaw.tampering) for flaw in result.flaws]


def test_an_intact_log_passes_and_its_head_is_shown() -> None:
    log = a_log()
    result = verified(log, head_of(log))
    assert (result.holds, result.entries, result.heads) == (True, ENTRIES, {ONE: head_of(log)})


@pytest.mark.parametrize("place", range(ENTRIES))
def test_a_changed_field_or_hash_is_found_at_its_entry_and_nowhere_else(place: int) -> None:
    for at in range(len(FIELDS)):
        log = a_log()
        fields = list(log[place].fields)
        fields[at] = "other" if fields[at] is None else None
        log[place] = replace(log[place], fields=tuple(fields))
        assert found(log) == [(place + 1, Tampering.CHANGED)]
    log = a_log()
    log[place] = replace(log[place], hash=bytes(32))
    if place < ENTRIES - 1:
        assert found(log) == [(place + 1, Tampering.CHANGED)]
    else:
        assert found(log)


@pytest.mark.parametrize("place", range(ENTRIES))
def test_a_removed_entry_is_found(place: int) -> None:
    log = a_log()
    del log[place]
    tampering = Tampering.REMOVED if place < ENTRIES - 1 else Tampering.TAIL_REMOVED
    assert found(log) == [(place + 1, tampering)]
    renumbered = [replace(entry, number=number) for number, entry in enumerate(log, 1)]
    assert found(renumbered)


@pytest.mark.parametrize("place", range(ENTRIES + 1))
def test_an_inserted_entry_is_found_whether_or_not_the_others_are_renumbered(place: int) -> None:
    log = a_log()
    forged = replace(log[min(place, ENTRIES - 1)], number=place + 1, hash=bytes(32))
    inserted = [(place + 1, Tampering.INSERTED)]
    renumbered = [replace(entry, number=n) for n, entry in enumerate([*log[:place], forged, *log[place:]], 1)]
    assert found(renumbered) == inserted
    if place < ENTRIES:
        assert found([*log[:place], forged, *log[place:]]) == inserted
        assert found([*log[: place + 1], forged, *log[place + 1 :]]) == inserted


@pytest.mark.parametrize("place", range(ENTRIES - 1))
def test_neighbours_that_were_exchanged_are_found(place: int) -> None:
    first, second = a_log()[place : place + 2]
    exchanges: list[tuple[Entry, Entry]] = [
        # Their lines, their numbers, or all but number and hash.
        (second, first),
        (replace(second, number=first.number), replace(first, number=second.number)),
        (replace(first, fields=second.fields), replace(second, fields=first.fields)),
    ]
    for exchanged in exchanges:
        log = a_log()
        log[place : place + 2] = exchanged
        assert found(log) == [(place + 1, Tampering.SWAPPED)]


def test_two_changes_far_apart_are_both_found() -> None:
    log = a_log()
    for place in (3, 12):
        log[place] = replace(log[place], fields=("x", *log[place].fields[1:]))
    assert found(log) == [(4, Tampering.CHANGED), (13, Tampering.CHANGED)]


def test_an_entry_moved_to_another_organization_is_missed_in_one_and_found_in_the_other() -> None:
    ones, twos = a_log(ONE), a_log(TWO)
    moved = replace(ones.pop(4), organization_id=TWO)
    result = Verification()
    parts: list[Entry | Closed] = [*ones, Closed(ONE, head_of(a_log(ONE))), moved, *twos, Closed(TWO, head_of(twos))]
    for part in parts:
        result.take(part)
    result.end()
    assert {flaw.organization_id for flaw in result.flaws} == {ONE, TWO}


def test_a_missing_or_another_head_is_found() -> None:
    log = a_log()
    assert not verified(log, None).holds
    assert found(log, Head(ENTRIES, bytes(32))) == [(ENTRIES, Tampering.CHANGED)]
    assert found(log, Head(ENTRIES - 1, log[-2].hash)) == [(ENTRIES, Tampering.INSERTED)]


def without_the_tail(log: Log) -> Log:
    return log[:15]


def with_a_past_written_again(log: Log) -> Log:
    return sealed_again([replace(log[0], fields=("x", *log[0].fields[1:])), *log[1:]])


@pytest.mark.parametrize("alter", [without_the_tail, with_a_past_written_again])
def test_what_was_altered_together_with_the_head_is_found_with_a_head_exported_before_and_not_without(
    alter: Callable[[Log], Log],
) -> None:
    log = a_log()
    altered = alter(log)
    assert verified(altered, head_of(altered)).holds
    for known in (head_of(log), Head(18, log[17].hash)):
        assert not verified(altered, head_of(altered), known={ONE: known}).holds
        assert not verified(altered, head_of(altered), known_of_any=known).holds
        assert verified(log, head_of(log), known={ONE: known}).holds
        assert verified(log, head_of(log), known_of_any=known).holds


def test_an_organization_whose_whole_log_is_gone_is_found_with_its_head() -> None:
    result = verified(a_log(), head_of(a_log()), known={TWO: Head(3, bytes(32))})
    assert [(flaw.organization_id, flaw.tampering) for flaw in result.flaws] == [(TWO, Tampering.TAIL_REMOVED)]


def test_flaws_are_counted_beyond_those_that_are_kept() -> None:
    log = [replace(entry, fields=("x", *entry.fields[1:])) for entry in a_log(entries=1_100)]
    result = verified(log, head_of(log))
    assert (result.found, len(result.flaws)) == (1_100, 1_000)
