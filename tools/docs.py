"""Makes docs/guarantees.md and docs/conformance.md of what ran in this checkout, and the site, and checks it all."""

import json
import re
import sys
from pathlib import Path

import docs_site

ROOT = Path(__file__).parents[1]
SECTION = re.compile(r"^## (\S+)\n\n((?:\|.*\n)+)", re.MULTILINE)
COLUMNS = re.compile(r"^\| Scenario \| (.*) \|$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")
INTRODUCTION = """# Guarantees

What the last full-size proof measured of what the front page promises. Run it yourself: `make proof PART=<part>`;
every figure comes from that run. A figure without a bar is only shown. A bar that was not reached says so; what limits
it stands on the page of its subject ([performance](performance.md)).
"""
CONFORMANCE = """# Conformance

What every broker must do, as scenarios over real sockets against a broker on this machine that speaks its language,
with the application and its database around. Run them yourself: `make contract [BROKER=<name>]`. A broker is spared a
scenario only by what it declares of itself.
"""


def conformance(runs: dict[str, list[dict[str, object]]]) -> str:
    """The page: a row for each scenario, a column for each broker."""
    verdicts = {(row["scenario"], broker): str(row["verdict"]) for broker, rows in runs.items() for row in rows}
    reasons = sorted(
        {(broker, str(row["why"])) for broker, rows in runs.items() for row in rows if row["verdict"] == "not offered"}
    )
    scenarios = dict.fromkeys(row["scenario"] for rows in runs.values() for row in rows)
    lines = [f"| Scenario | {' | '.join(runs)} |", "|---" * (len(runs) + 1) + "|"]
    lines += [f"| {name} | {' | '.join(verdicts.get((name, broker), '') for broker in runs)} |" for name in scenarios]
    said = [f"- {broker}: {why}" for broker, why in reasons]
    return "\n".join([CONFORMANCE, *lines, "\n## Why a scenario is not offered\n", *said]) + "\n"


def guarantees(page: str, parts: list[dict[str, object]]) -> str:
    """The page with the parts that were run in this checkout; the others keep the figures of their own last run."""
    sections = dict(SECTION.findall(page))
    for part in parts:
        figures = part["figures"]
        assert isinstance(figures, list)
        rows = [f"| {row['figure']} | {row['value']} | {_bar(row)} |" for row in figures]
        sections[str(part["part"])] = "\n".join(["| Figure | Measured | Bar |", "|---|---|---|", *rows]) + "\n"
    return INTRODUCTION + "".join(f"\n## {title}\n\n{body}" for title, body in sorted(sections.items()))


def _bar(row: dict[str, object]) -> str:
    bar = "" if row["bar"] is None else str(row["bar"])
    return bar if row["ok"] else f"{bar}, **not reached**"


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
    runs = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "build/contract").glob("*.json"))}
    page = ROOT / "docs/conformance.md"
    known = COLUMNS.search(page.read_text()) if page.exists() else None
    # A run of some brokers says nothing of the others on the page.
    if runs and (known is None or set(known[1].split(" | ")) <= set(runs)):
        page.write_text(conformance(runs))
    broken = broken_links() or docs_site.problems()
    print("\n".join(broken) or "Every link of the documentation leads somewhere; the site is build/site/index.html.")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
