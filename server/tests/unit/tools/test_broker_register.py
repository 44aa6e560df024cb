"""The register shows only rows as they were signed, and calls measured only what was measured at a broker itself."""

import json
import runpy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from openbell_server.adapters.broker_trials.trial_rows import signed_row, signing_key
from openbell_server.application.broker_trials.subject import Measurement

ROOT = Path(__file__).parents[4]
TOOL = runpy.run_path(str(ROOT / "tools/broker_register.py"))
FOLDER = ROOT / "docs/brokers"


def a_row(tmp_path: Path, *, is_sandbox: bool) -> dict[str, Any]:
    return signed_row(
        signing_key(tmp_path / "key"),
        broker="alpaca",
        is_sandbox=is_sandbox,
        version="1",
        at=datetime(2026, 11, 19, tzinfo=UTC),
        measurements=[Measurement(name="look-up", measured="every order by our id")],
    )


def test_the_register_is_made_of_the_rows_beside_it() -> None:
    entries = TOOL["register"](TOOL["rows_of"](FOLDER))
    assert (FOLDER / "register.md").read_text() == TOOL["register_page"](entries)
    assert json.loads((FOLDER / "register.json").read_text()) == entries


def test_without_a_row_of_a_broker_itself_the_page_says_that_nothing_was_measured(tmp_path: Path) -> None:
    for is_sandbox in (False, True):
        page = TOOL["register_page"](TOOL["register"]([a_row(tmp_path, is_sandbox=is_sandbox)]))
        assert ("Nothing on this page has been measured" in page) is not is_sandbox
        assert ("| measured, 2026-11-19 |" in page) is is_sandbox


@pytest.mark.parametrize(
    ("name", "is_sandbox", "changes"),
    [
        ("measured", True, {"broker": "tradier"}),
        ("measured", False, {}),
        ("simulated", True, {}),
        ("simulated", False, {"measured_at": "2027-01-01"}),
    ],
    ids=["changed", "of a simulator", "of a sandbox", "another date"],
)
def test_a_row_that_is_not_what_it_says_is_refused(
    name: str, is_sandbox: bool, changes: dict[str, str], tmp_path: Path
) -> None:
    row = a_row(tmp_path, is_sandbox=is_sandbox) | changes
    (tmp_path / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(ValueError, match="line 1"):
        TOOL["rows_of"](tmp_path)
