"""Makes docs/guarantees.md from the proof files of this checkout, and checks the links of the documentation."""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECTION = re.compile(r"^## (\S+)\n\n((?:\|.*\n)+)", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")
INTRODUCTION = """# Guarantees

What the last full-size proof measured of what the front page promises. Run it yourself: `make proof PART=<part>`;
every figure comes from that run. A figure without a bar is only shown.
"""


def guarantees(page: str, parts: list[dict[str, object]]) -> str:
    """The page with the parts that were run in this checkout; the others keep the figures of their own last run."""
    sections = dict(SECTION.findall(page))
    for part in parts:
        figures = part["figures"]
        assert isinstance(figures, list)
        rows = [f"| {row['figure']} | {row['value']} | {'' if row['bar'] is None else row['bar']} |" for row in figures]
        sections[str(part["part"])] = "\n".join(["| Figure | Measured | Bar |", "|---|---|---|", *rows]) + "\n"
    return INTRODUCTION + "".join(f"\n## {title}\n\n{body}" for title, body in sorted(sections.items()))


def broken_links() -> list[str]:
    """Links to files that are not there."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md")]
    return [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in LINK.findall(page.read_text())
        if not (page.parent / target).exists()
    ]


def main() -> int:
    """Make and check."""
    parts = [json.loads(path.read_text()) for path in sorted((ROOT / "build/proof").glob("*.json"))]
    # The bench promises nothing: the machine decides as much as the code.
    full = [part for part in parts if part["size"] == "full" and part["part"] != "bench"]
    if full:
        page = ROOT / "docs/guarantees.md"
        page.write_text(guarantees(page.read_text(), full))
    broken = broken_links()
    print("\n".join(broken) or "Every link of the documentation leads somewhere.")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
