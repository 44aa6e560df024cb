"""The fenced blocks of the pages that a reader meets: found, and made into one program for each page."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[4]
PAGES: Final = (
    "*.md",
    "docs/*.md",
    "docs/guides/*.md",
    "examples/README.md",
    "mcp/README.md",
    "sdk/README.md",
    "torture/README.md",
)
TAGS: Final = frozenset({"bash", "python", "json", "text", "mermaid", "proto", "yaml", "ini", "ts"})
EXECUTED: Final = frozenset({"bash", "python"})
_BLOCK: Final = re.compile(r"^( *)```(.*)\n((?:.*\n)*?)\1```$", re.MULTILINE)
# A failure names the line of the page: the program has each line of a block where the page has it.
_FIRST_LINE: Final = "set -Eeuo pipefail; trap 'echo \"{page}:$LINENO ended with $?\" >&2' ERR"
_STARTS: Final = ("git clone ", "make dev\n")
_PYTHON_BEGINS: Final = "python - <<'END_OF_PYTHON'"
_PYTHON_ENDS: Final = "END_OF_PYTHON"


@dataclass(frozen=True, slots=True)
class Block:
    """What stands between two fences."""

    page: str
    line: int  # of its first line
    tag: str
    text: str

    @property
    def place(self) -> str:
        """Where a reader finds it."""
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Every page, as paths from the root."""
    return sorted({str(path.relative_to(ROOT)) for pattern in PAGES for path in ROOT.glob(pattern)})


def blocks(page: str) -> list[Block]:
    """Every block of a page, in order; one inside a list is moved to the left."""
    return blocks_of(page, (ROOT / page).read_text())


def blocks_of(page: str, text: str) -> list[Block]:
    """The blocks of this text."""
    return [
        Block(
            page,
            text.count("\n", 0, match.start(3)) + 1,
            match[2],
            re.sub(f"^{match[1]}", "", match[3], flags=re.MULTILINE),
        )
        for match in _BLOCK.finditer(text)
    ]


def program(page: str, found: list[Block]) -> str:
    """All that a page has its reader do, as one program of bash, in which variables outlive their block."""
    lines = [_FIRST_LINE.format(page=page)]
    for block in found:
        # A platform is there already; the quickstart's own is made and started from an empty folder by a proof.
        if block.tag not in EXECUTED or block.text.startswith(_STARTS):
            continue
        # The fence is the line before, and becomes where Python begins.
        lines += [""] * (block.line - 2 - len(lines))
        lines.append(_PYTHON_BEGINS if block.tag == "python" else "")
        lines += block.text.splitlines()
        lines.append(_PYTHON_ENDS if block.tag == "python" else "")
    return "\n".join(lines) + "\n"
