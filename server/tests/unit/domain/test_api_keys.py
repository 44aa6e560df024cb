"""API keys: what is minted is read back, a mistyped one never reaches a look-up, and secrets mask themselves."""

import hashlib
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.api_keys import ENTROPY_BYTES, ApiKey, PresentedKey, mint, read
from openbell_server.domain.identifiers import BASE62

entropy = st.binary(min_size=ENTROPY_BYTES, max_size=ENTROPY_BYTES)
environments = st.sampled_from(Environment)


@given(environments, entropy)
def test_a_minted_key_is_read_back(environment: Environment, random: bytes) -> None:
    text, stored = mint(environment, random)
    assert text.isascii()
    assert text.startswith(f"ob_{environment}_0_")
    assert read(text) == stored
    secret = text.split("_")[4]
    assert stored.secret_hash == hashlib.sha256(secret.encode()).digest()


@given(environments, entropy, st.data())
def test_the_checksum_catches_any_changed_character(
    environment: Environment, random: bytes, data: st.DataObject
) -> None:
    text, _ = mint(environment, random)
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from([sign for sign in BASE62 + "_- " if sign != text[place]]))
    assert read(text[:place] + other + text[place + 1 :]) is None


def test_every_single_character_change_of_one_key_is_caught() -> None:
    text, _ = mint(Environment.LIVE, bytes(range(ENTROPY_BYTES)))
    changed = [text[:i] + sign + text[i + 1 :] for i in range(len(text)) for sign in BASE62 if sign != text[i]]
    assert len(changed) > 4000
    assert [key for key in changed if read(key) is not None] == []


@given(entropy, st.data())
def test_two_swapped_neighbours_are_caught(random: bytes, data: st.DataObject) -> None:
    text, _ = mint(Environment.PAPER, random)
    place = data.draw(st.integers(0, len(text) - 2))
    swapped = text[:place] + text[place + 1] + text[place] + text[place + 2 :]
    assert (read(swapped) is None) == (swapped != text)


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize("around", ["{}\n", " {}", "{} ", "\ufeff{}", "{}\0", "{0}{0}"])
def test_nothing_around_a_key_is_forgiven(around: str) -> None:
    text, _ = mint(Environment.PAPER, bytes(ENTROPY_BYTES))
    assert read(around.format(text)) is None


@given(entropy)
def test_a_secret_is_in_no_representation(random: bytes) -> None:
    text, stored = mint(Environment.PAPER, random)
    secret = text.split("_")[4]
    for shown in (repr(stored), str(stored)):
        assert secret not in shown
        assert repr(stored.secret_hash) not in shown
        assert stored.secret_hash.hex() not in shown
    assert [f.repr for kind in (ApiKey, PresentedKey) for f in fields(kind) if f.name == "secret_hash"] == [False] * 2
