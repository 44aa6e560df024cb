"""A row of a measured broker is signed by who measured it, and the orders of a trial outlive its process."""

import stat
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from openbell_server.adapters.broker_trials.sent_orders_file import AnotherTrial, SentOrdersFile
from openbell_server.adapters.broker_trials.trial_rows import is_signed, signed_row, signing_key
from openbell_server.application.broker_trials.subject import Measurement

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)


def a_row(tmp_path: Path) -> dict[str, Any]:
    return signed_row(
        signing_key(tmp_path / "trial.key"),
        broker="alpaca",
        is_sandbox=False,
        version="1",
        at=NOW,
        measurements=[Measurement(name="look-up", measured="EVERY_ORDER")],
    )


def test_a_row_is_as_it_was_signed(tmp_path: Path) -> None:
    assert is_signed(a_row(tmp_path))


@pytest.mark.parametrize("field", ["broker", "of", "version", "measured_at", "measurements", "public_key", "signature"])
def test_a_row_that_was_changed_in_any_field_is_not_as_it_was_signed(field: str, tmp_path: Path) -> None:
    row = a_row(tmp_path)
    assert not is_signed(row | {field: "sandbox"})
    assert not is_signed({name: value for name, value in row.items() if name != field})


def test_a_row_with_an_additional_field_is_not_as_it_was_signed(tmp_path: Path) -> None:
    assert not is_signed(a_row(tmp_path) | {"more": 1})


def test_the_key_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "trial.key"
    made = signing_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert signing_key(path).private_bytes_raw() == made.private_bytes_raw()


def test_orders_of_a_killed_trial_are_known_to_the_next(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "alpaca.jsonl"
    killed = SentOrdersFile(path)
    killed.add("first", NOW)
    killed.close()
    with path.open("a") as file:
        file.write('["half a li')
    following = SentOrdersFile(path)
    assert following.all() == {"first": NOW}
    following.add("second", NOW)
    following.close()
    with closing(SentOrdersFile(path)) as last:
        assert last.all() == {"first": NOW, "second": NOW}


def test_what_was_cancelled_is_forgotten(tmp_path: Path) -> None:
    sent = SentOrdersFile(tmp_path / "alpaca.jsonl")
    sent.add("first", NOW)
    sent.clear()
    sent.close()
    with closing(SentOrdersFile(tmp_path / "alpaca.jsonl")) as following:
        assert following.all() == {}


def test_two_trials_at_once_do_not_share_an_account(tmp_path: Path) -> None:
    first = SentOrdersFile(tmp_path / "alpaca.jsonl")
    with pytest.raises(AnotherTrial):
        SentOrdersFile(tmp_path / "alpaca.jsonl")
    first.close()
    SentOrdersFile(tmp_path / "alpaca.jsonl").close()
