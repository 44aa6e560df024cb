"""Makes docs/measurements.md, docs/conformance.md, the marked parts of pages and the site, and checks all links."""

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import docs_site
import marked_parts

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "server/tests"))
from proof.parts import PARTS  # noqa: E402 - found by the line above
from proof.results import Result, Row, read_result  # noqa: E402

COLUMNS = re.compile(r"^\| Scenario \| (.*) \|$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")
INTRODUCTION = """# Measurements

This page has every figure of the last full-size runs, as the proof printed them. [Guarantees](guarantees.md) explains
the promises behind the figures. To measure one part yourself, run `make proof PART=<part>`; `make nightly` measures
every part whose result is older than the code that it covers. A bar is the value that must be reached; rows without a
bar are informational. A bar that was not reached is marked; [performance](performance.md) explains what limits it.
"""
CONFORMANCE = """# Conformance

On this page you find the scenarios that every broker adapter must pass, and the results. Each scenario runs the real
application with its database against a local simulator of the broker's API, over real sockets. Run them yourself:
`make contract [BROKER=<name>]`. A scenario is "not offered" only if the broker's declared capabilities exclude it.
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


def measurements(results: Iterable[Result]) -> str:
    """The page: a section for each part."""
    return INTRODUCTION + "".join(f"\n## {result.part}\n\n{_section(result)}" for result in results)


def _section(result: Result) -> str:
    rows = [f"| {row['figure']} | {row['value']} | {_bar(row)} |" for row in result.figures]
    return (
        "\n".join([marked_parts.measured_when(result), "", "| Figure | Measured | Bar |", "|---|---|---|", *rows])
        + "\n"
    )


def _bar(row: Row) -> str:
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
    results = [result for part in sorted(PARTS) if (result := read_result(part))]
    (ROOT / "docs/measurements.md").write_text(measurements(results))
    runs = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "build/contract").glob("*.json"))}
    page = ROOT / "docs/conformance.md"
    known = COLUMNS.search(page.read_text()) if page.exists() else None
    # A run of some brokers says nothing of the others on the page.
    if runs and (known is None or set(known[1].split(" | ")) <= set(runs)):
        page.write_text(conformance(runs))
    marked_parts.main()
    broken = broken_links() or docs_site.problems()
    print("\n".join(broken) or "Every link of the documentation leads somewhere; the site is build/site/index.html.")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
