"""Ids: their order, their derivations, their bounds."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from openbell_server.domain.identifiers import (
    BASE62,
    SLOTS,
    AccountId,
    ActionId,
    canonical_symbol,
    client_order_id,
    slot_of,
    uuid7,
)

entropy = st.binary(min_size=10, max_size=10)


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**48 - 1), entropy, entropy)
def test_ids_sort_by_their_time(first: int, second: int, a: bytes, b: bytes) -> None:
    earlier, later = sorted((first, second))
    if earlier != later:
        assert uuid7(earlier, a) < uuid7(later, b)


@given(st.integers(0, 2**48 - 1), entropy)
def test_an_id_is_a_version_7_uuid_that_carries_its_milliseconds(milliseconds: int, random: bytes) -> None:
    made = uuid7(milliseconds, random)
    assert made.version == 7
    assert made.variant == "specified in RFC 4122"
    assert made.int >> 80 == milliseconds


@given(st.integers(0, 2**128 - 1))
def test_a_client_order_id_is_22_letters_and_digits_and_reversible(number: int) -> None:
    text = client_order_id(ActionId(UUID(int=number)))
    assert len(text) == 22
    value = 0
    for digit in text:
        value = value * 62 + BASE62.index(digit)
    assert value == number


@given(st.uuids())
def test_an_account_has_one_of_64_slots_for_life(account: UUID) -> None:
    assert 0 <= slot_of(AccountId(account)) < SLOTS
    assert slot_of(AccountId(account)) == slot_of(AccountId(UUID(str(account))))


def test_two_spellings_of_a_symbol_are_one() -> None:
    assert canonical_symbol("brk.b") == canonical_symbol("BRK.B") == "BRK.B"


def test_what_cannot_be_a_symbol_is_none() -> None:
    assert [canonical_symbol(text) for text in ("", "A B", "A" * 33, "€", "A\n", "A\0")] == [None] * 6
