"""The code of an older commit beside that of this tree, each measured in a process that imports only its own."""

import contextlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from proof.cost_report import Report
from proof.results import ROOT

# The commit before intents were executed in sets.
BEFORE: Final = Path(__file__).with_name("cost_before.txt")
_REQUIREMENTS: Final = "requirements/dev.txt"
_SETUP_SECONDS: Final = 900
_RUN_SECONDS: Final = 1800


@contextlib.contextmanager
def tree_before() -> Iterator[Path]:
    """The files of the older commit, in a folder below build/; not a git worktree, which would outlive a kill."""
    commit = BEFORE.read_text().strip()
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build, prefix="cost-before-") as folder:
        packed = Path(folder) / "tree.tar"
        subprocess.run(["git", "archive", "-o", packed, commit], cwd=ROOT, check=True, timeout=_SETUP_SECONDS)
        tree = Path(folder) / "tree"
        with tarfile.open(packed) as files:
            files.extractall(tree, filter="data")
        yield tree


def python_of(tree: Path) -> str:
    """This Python, if the tree needs the same distributions, else one of the tree's own."""
    if (tree / _REQUIREMENTS).read_bytes() == (ROOT / _REQUIREMENTS).read_bytes():
        return sys.executable
    base = Path(sys.base_prefix) / "bin/python3"
    subprocess.run(["make", "setup", f"PYTHON={base}"], cwd=tree, check=True, timeout=_SETUP_SECONDS)
    return str(tree / ".venv/bin/python")


def measure_tree(tree: Path, interpreter: str, arguments: Sequence[str]) -> Report:
    """One platform of the tree's code, with a new database, measured by this tree's meter."""
    sources = [tree / "server/src", tree / "sdk/src", ROOT / "server/tests"]
    done = subprocess.run(
        [interpreter, "-m", "proof.cost_run", "--json", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sources))},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=_RUN_SECONDS,
    )
    report = Report.from_json(json.loads(done.stdout.splitlines()[-1]))
    assert Path(report.tree) == tree.resolve(), f"measured {report.tree} instead of {tree}"
    return report
