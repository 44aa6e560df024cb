"""Results of full-size runs, which the repository keeps: docs/proof/<part>.json, with commit and date."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from proof.parts import PARTS

ROOT: Final = Path(__file__).parents[3]
FOLDER: Final = ROOT / "docs/proof"
GIT_SECONDS: Final = 60
Row = dict[str, int | float | str | bool | None]


@dataclass(frozen=True, slots=True)
class Result:
    """What one part measured."""

    part: str
    # Empty if it was not recorded, or if the run covered changes that were not committed.
    commit: str
    date: str
    figures: Sequence[Row]

    @property
    def shortfalls(self) -> list[str]:
        """Figures that did not reach their bar, without those of which docs/performance.md says why."""
        known = PARTS[self.part].known_shortfalls
        return [str(row["figure"]) for row in self.figures if not row["ok"] and row["figure"] not in known]

    @property
    def is_current(self) -> bool:
        """Whether nothing that the part covers has changed since."""
        return bool(self.commit) and not _git("diff", "--quiet", self.commit, "--", *_paths(self.part)).returncode


def _paths(part: str) -> list[str]:
    return [*PARTS[part].covers, f"server/tests/proof/{part.replace('-', '_')}.py"]


def _git(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=GIT_SECONDS, check=False
    )


def commit_of(part: str) -> str:
    """The commit that a run of this part measures now; empty while a path that it covers has other changes."""
    changed = _git("status", "--porcelain", "--", *_paths(part))
    head = _git("rev-parse", "HEAD")
    return "" if head.returncode or changed.stdout else head.stdout.strip()


def record(part: str, commit: str, figures: Sequence[Row]) -> None:
    """Replace the last result of a part."""
    head = {"part": part, "commit": commit, "date": datetime.now(UTC).date().isoformat()}
    rows = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in figures)
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = f'{json.dumps(head)[:-1]}, "figures": [\n  {rows}\n]}}\n'
    (FOLDER / f"{part}.json").write_text(text)


def read_result(part: str) -> Result | None:
    """The last result of a part."""
    path = FOLDER / f"{part}.json"
    return Result(**json.loads(path.read_text())) if path.exists() else None
