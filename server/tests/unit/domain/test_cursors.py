"""Cursors: only what we sealed opens, only in its scope, and only in the spelling we gave."""

import base64
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbell_server.domain.events.cursors import seal, unseal

KEY = b"k" * 32
SCOPE = "intents organization account"
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/= \n"
numbers = st.integers(0, 2**63 - 1)


@given(numbers, st.text())
def test_a_sealed_number_opens_in_its_scope(number: int, scope: str) -> None:
    assert unseal(KEY, scope, seal(KEY, scope, number)) == number


@given(numbers, st.text(), st.text())
def test_a_token_opens_in_no_other_scope(number: int, scope: str, other: str) -> None:
    assert (unseal(KEY, other, seal(KEY, scope, number)) is None) == (scope != other)


def test_a_token_of_one_account_opens_for_no_other() -> None:
    token = seal(KEY, "events 00000000-0000-0000-0000-000000000001", 7)
    assert unseal(KEY, "events 00000000-0000-0000-0000-000000000001", token) == 7
    assert unseal(KEY, "events 00000000-0000-0000-0000-000000000002", token) is None


@given(numbers, st.binary(min_size=1))
def test_a_token_opens_with_no_other_key(number: int, key: bytes) -> None:
    assert unseal(key, SCOPE, seal(KEY, SCOPE, number)) is None


def test_ten_thousand_tampered_tokens_are_refused() -> None:
    chance = random.Random(7)
    opened = []
    for _ in range(10_000):
        token = seal(KEY, SCOPE, chance.randrange(2**63))
        place = chance.randrange(len(token))
        sign = chance.choice([sign for sign in ALPHABET if sign != token[place]])
        changed = chance.choice(
            [token[:place] + sign + token[place + 1 :], token[:place] + token[place + 1 :], token + sign, sign + token]
        )
        if changed != token and unseal(KEY, SCOPE, changed) is not None:
            opened.append((token, changed))
    assert opened == []


def test_every_other_last_character_is_refused() -> None:
    token = seal(KEY, SCOPE, 42)
    assert [sign for sign in ALPHABET if unseal(KEY, SCOPE, token[:-1] + sign) is not None] == [token[-1]]


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    assert unseal(KEY, SCOPE, text) is None


@pytest.mark.parametrize("size", [0, 8, 12, 19, 20, 21, 200])
def test_bytes_without_our_signature_are_refused(size: int) -> None:
    assert unseal(KEY, SCOPE, base64.urlsafe_b64encode(bytes(size)).rstrip(b"=").decode()) is None
