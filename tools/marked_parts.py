"""Fills the marked parts of pages: the demo's table from its picture, its plain client, and results of the proof."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "server/tests"))
from proof.results import read_result  # noqa: E402 - found by the line above

ARM = re.compile(r"^(.+): asked (\d+), at the broker (\d+), doubled (\d+), lost track of (\d+)$", re.MULTILINE)
# Part, what it does with figures of it, and the figures that are its result.
PROOFS = (
    (
        "execution",
        "{0[intents accepted]:,} intents at four kinds of broker, {0[processes killed]} kills",
        ("orders doubled at the broker", "orders that one ledger lacks"),
    ),
    (
        "restart",
        "{0[intents accepted]:,} intents while every process, PostgreSQL and NATS are killed",
        ("orders doubled at the broker", "lost: accepted and not shown"),
    ),
    ("simulation", "{0[intents]:,} intents in {0[seeds]:,} seeded schedules of crashes", ("doubled", "lost")),
    (
        "upgrade",
        "{0[actions before the migration]:,} actions, a migration and a restore under load",
        ("failed requests", "orders doubled at the broker"),
    ),
    ("kill", "halts of an account, an organization and the platform", ("platform: doors opened after the halt",)),
    ("isolation", "every statement with the ids of another organization", ("rows of others seen",)),
    (
        "authz",
        "{0[cells called]:,} calls: every operation with every credential",
        ("cells answered otherwise than the table says",),
    ),
)


def demo_table() -> str:
    """Both arms, as the description of the demo's picture has them."""
    arms = ARM.findall((ROOT / "docs/images/demo.svg").read_text())
    lines = ["| | asked | at the broker | doubled | lost track of |", "|---|---:|---:|---:|---:|"]
    return "\n".join([*lines, *(f"| {' | '.join(arm)} |" for arm in arms)])


def plain_client() -> str:
    code = (ROOT / "server/src/openbell_server/devtools/demo/plain_client.py").read_text()
    return f"```python\n{code}```"


def proof_table() -> str:
    lines = ["| `make proof PART=` | What it does | Measured |", "|---|---|---|"]
    for part, what, names in PROOFS:
        result = read_result(part)
        assert result is not None, f"docs/proof/{part}.json is missing"
        figures = {str(row["figure"]): row["value"] for row in result.figures}
        measured = "; ".join(f"{name}: {figures[name]}" for name in names)
        lines.append(f"| [`{part}`](docs/guarantees.md#{part}) | {what.format(figures)} | {measured} |")
    return "\n".join(lines)


PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"demo": demo_table, "proof": proof_table},
    "docs/demo.md": {"demo": demo_table, "plain client": plain_client},
}


def filled(page: str) -> str:
    """The page with its marked parts as they must be."""
    text = (ROOT / page).read_text()
    for name, content in PARTS[page].items():
        begin, end = f"<!-- begin {name} -->\n", "\n<!-- end -->"
        head, begun, rest = text.partition(begin)
        assert begun, f"{page} has no part {name}"
        text = head + begin + content() + end + rest.partition(end.strip())[2]
    return text


def main() -> None:
    for page in PARTS:
        (ROOT / page).write_text(filled(page))
