"""Short texts encrypted with a secret of the settings."""

from openbell_server.adapters.vault.secret_sealer import SecretSealer

SECRET = b"0123456789abcdefghijklmnopqrstuvwxyz"


def test_a_text_opens_with_the_same_secret_for_the_same_purpose() -> None:
    sealed = SecretSealer(SECRET, b"console").seal(b"text", b"purpose")
    assert b"text" not in sealed
    assert SecretSealer(SECRET, b"console").open(sealed, b"purpose") == b"text"


def test_it_opens_for_no_other_purpose_use_or_secret_and_not_changed() -> None:
    sealer = SecretSealer(SECRET, b"console")
    sealed = sealer.seal(b"text", b"purpose")
    assert sealer.seal(b"text", b"purpose") != sealed
    assert sealer.open(sealed, b"another") is None
    assert SecretSealer(SECRET, b"another").open(sealed, b"purpose") is None
    assert SecretSealer(SECRET + b"x", b"console").open(sealed, b"purpose") is None
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        assert sealer.open(bytes(changed), b"purpose") is None
    assert sealer.open(b"", b"purpose") is None
