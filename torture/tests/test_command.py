"""The command: what it runs, says, writes and returns."""

import json
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from openbell_torture.__main__ import FOUND, NOT_RUN, main

EXAMPLE = "openbell_torture.examples."
# Without requests that hang: each would take a second.
QUICK = "accept_then_reset=0.3,error_500_after_accept=0.2"


def tried(bot: str, *options: str) -> int:
    return main([*options, "--seed", "7", "--", sys.executable, "-m", EXAMPLE + bot])


@pytest.mark.parametrize("bot", ["retry", "look_up", "stream_only", "retry_fixed"])
def test_every_example_works_without_faults(bot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert tried(bot, "--plan", "none") == 0, capsys.readouterr().out


def test_a_doubled_order_is_found_in_a_bot_that_only_looks_at_open_orders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {name: tmp_path / f"result.{name}" for name in ("json", "junit", "svg")}
    options = [part for name, path in files.items() for part in (f"--{name}", str(path))]
    assert tried("look_up", "--plan", QUICK, *options) == FOUND
    output = capsys.readouterr().out
    assert "doubled: buy" in output
    assert f"openbell-torture --plan {QUICK} --seed 7 -- " in output
    result = json.loads(files["json"].read_text())
    assert {"doubled", "lost track of"} <= {finding["weakness"] for finding in result["findings"]}
    assert result["orders_at_broker"] > result["orders_wanted"] == 20
    suite = ET.fromstring(files["junit"].read_text())
    assert {case.get("name") for case in suite if case.find("failure") is not None} >= {"doubled", "lost track of"}
    assert ET.fromstring(files["svg"].read_text()).tag.endswith("svg")


def test_nothing_is_found_in_a_bot_that_looks_up_its_own_ids(capsys: pytest.CaptureFixture[str]) -> None:
    assert tried("retry_fixed", "--plan", QUICK) == 0, capsys.readouterr().out


def test_a_bot_that_asks_for_nothing_was_not_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--", sys.executable, "-c", "pass"]) == NOT_RUN
    assert "APCA_API_BASE_URL" in capsys.readouterr().out


def test_a_bot_that_does_not_end_is_ended(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "0.5", "--", sys.executable, "-c", "import time; time.sleep(600)"]) == NOT_RUN
    assert "still running at the end" in capsys.readouterr().out


@pytest.mark.parametrize("plan", ["nonsense", "hang=2", "what=0.1"])
def test_a_plan_that_is_not_known_is_refused_with_what_there_is(plan: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--plan", plan, "--", sys.executable, "-c", "pass"]) == NOT_RUN
    assert "openbell-torture: --plan:" in capsys.readouterr().err


def test_a_bot_that_cannot_be_started_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--", "/no/such/bot"]) == NOT_RUN
    assert "/no/such/bot" in capsys.readouterr().err
