"""The demonstration as a user runs it: both arms are counted, and nothing is left behind, not even after Ctrl-C."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from openbell_server.devtools.child_processes import ProcessStamp, wait_until

END_SECONDS = 270
KILL_SECONDS = 180
DRAIN_SECONDS = 90


class Run:
    """One run; everything that it writes is in a folder of its own, so that what it leaves can be seen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "output.txt"
        self.picture = folder / "demo.svg"
        self.seen: set[ProcessStamp] = set()
        with self.log.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "openbell_server", "demo", "--intents", "40", "--picture", self.picture],
                env={**os.environ, "TMPDIR": str(folder)},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def has_ended(self) -> bool:
        """Whether it has; until then its children are noted."""
        stamp = ProcessStamp.of(self.process.pid)
        self.seen |= set(stamp.descendants()) if stamp else set()
        return self.process.poll() is not None

    def has_said(self, words: str) -> bool:
        return self.has_ended() or words in self.log.read_text()

    def left(self) -> list[object]:
        """Running processes and files, but for what was asked for."""
        processes = [stamp for stamp in self.seen if stamp.is_running]
        return [*processes, *(path for path in self.folder.iterdir() if path not in {self.log, self.picture})]


@pytest.fixture
def run() -> Iterator[Run]:
    # Not tmp_path: PostgreSQL's own user could not pass through to a folder below it.
    folder = Path(tempfile.mkdtemp(prefix="openbell-test-demo-"))
    folder.chmod(0o711)
    running = Run(folder)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait(60)
        shutil.rmtree(folder)


def test_both_arms_are_counted_both_ledgers_agree_and_nothing_is_left(run: Run) -> None:
    assert wait_until(run.has_ended, END_SECONDS)
    output = run.log.read_text()
    assert run.process.returncode == 0, output
    assert "Both ledgers agree." in output
    assert "executor and relay killed (SIGKILL)" in output
    rows = re.findall(r"^(plain client|Openbell) +(\d+) +(\d+) +(\d+) +(\d+) *$", output, re.MULTILINE)
    # The plain client's numbers are shown, whatever they are.
    (plain, plain_asked, *_), ours = rows
    assert (plain, plain_asked) == ("plain client", "40")
    orders = re.search(r"^orders +\d+ +(\d+) ", output, re.MULTILINE)
    assert orders, output
    assert ours == ("Openbell", "40", orders[1], "0", "0"), "as many as the broker's ledger has"
    picture = run.picture.read_text()
    for name, *numbers in rows:
        assert "{}: asked {}, at the broker {}, doubled {}, lost track of {}".format(name, *numbers) in picture
    assert "Both&#160;ledgers&#160;agree." in picture
    assert picture.count("http") == 1, "the picture fetches nothing; one address is the name of SVG itself"
    # PostgreSQL, NATS, three processes, and the one that was started again.
    assert len(run.seen) >= 6
    assert run.left() == []


def test_ctrl_c_leaves_nothing(run: Run) -> None:
    assert wait_until(lambda: run.has_said("executor and relay killed (SIGKILL)"), KILL_SECONDS)
    run.process.send_signal(signal.SIGINT)
    assert wait_until(run.has_ended, DRAIN_SECONDS)
    assert run.process.returncode not in {0, None}
    assert "Traceback" not in run.log.read_text()
    assert len(run.seen) >= 6
    assert run.left() == []
