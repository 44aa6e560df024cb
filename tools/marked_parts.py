"""Fills the marked parts of pages: the demo's table from its picture, its plain client, and results of the proof."""

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "server/tests"))
from proof.results import Result, read_result  # noqa: E402 - found by the line above

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
    ("kill", "halts of an account, an organization and the platform", ("PLATFORM: doors opened after the halt",)),
    (
        "money",
        "{0[executions, busts and corrections]:,} random fills, reported late, busted and corrected",
        ("figures at the end, after a restart, that differ from the definition",),
    ),
    ("isolation", "every statement with the ids of another organization", ("rows of others seen",)),
    (
        "authz",
        "{0[cells called]:,} calls: every operation with every credential",
        ("cells answered otherwise than in the table",),
    ),
)
# The figure of each promise in docs/guarantees.md: its part, the figure, and what was measured.
PROMISES = {
    "durable": (
        "commit",
        "accepted answers whose intent is missing",
        "accepted intents missing: {0[cuts made]} connections to PostgreSQL cut before, inside and after a commit",
    ),
    "one order": (
        "execution",
        "orders doubled at the broker",
        "orders doubled: {0[intents accepted]:,} intents at four kinds of broker, {0[processes killed]} kills",
    ),
    "no guessing": (
        "simulation",
        "in doubt and not flagged",
        "unknown outcomes not flagged: {0[intents]:,} intents in {0[seeds]:,} seeded schedules of crashes",
    ),
    "reconciled": (
        "restart",
        "orders on which the ledgers disagree",
        "orders that differ from the broker's ledger: {0[intents accepted]:,} intents, every process killed",
    ),
    "limits": (
        "controls",
        "commands accepted after a commit that refuses them",
        "commands accepted that a rule refuses: {0[control commits that raced submits and doors]:,} changes of rules",
    ),
    "halt": (
        "kill",
        "PLATFORM: doors opened after the halt",
        "doors opened after a halt of the platform: {0[PLATFORM: queued commands skipped]:,} queued commands skipped",
    ),
    "events": (
        "events",
        "grpc: logs with an event missing, doubled or out of order",
        "logs with a fault: {0[grpc: events followed with a cut inside the next]:,} events, the connection cut in each",
    ),
    "isolation": (
        "isolation",
        "rows of another organization seen or changed by its ids and its organization's",
        "rows of another organization seen or changed: {0[named statements]} statements, each with its ids",
    ),
    "secrets": (
        "secrets",
        "canaries found anywhere",
        "of {0[canaries planted]} planted secrets found, in {0[spellings searched for]:,} spellings",
    ),
    "revoked": (
        "subscribers",
        "longest seconds from a loss of access to the end of the stream",
        "seconds at most from the loss of access to the end of an open stream",
    ),
}
# What an order costs, and the figures of the part `cost`; each has two values: before execution in sets, and now.
_BURST = "20 accounts, burst of 2000: "
_STEADY = "20 accounts, 20 intents a second: "
_MANY = "1000 accounts, burst of 2000: "
_CPU = "CPU for an intent, load generator included, ms: before, new"
COSTS = (
    ("CPU of an order, ms: burst of 2,000 on 20 accounts", _BURST + _CPU),
    (
        "of this: executor and its database",
        (f"{_BURST}CPU of executor, ms: before, new", f"{_BURST}CPU of postgres: for executor, ms: before, new"),
    ),
    (
        "of this: api and its database",
        (f"{_BURST}CPU of api, ms: before, new", f"{_BURST}CPU of postgres: for api, ms: before, new"),
    ),
    (
        "of this: the paper broker and its database",
        (f"{_BURST}CPU of paper, ms: before, new", f"{_BURST}CPU of postgres: for paper, ms: before, new"),
    ),
    ("CPU of an order, ms: burst of 2,000 on 1,000 accounts", _MANY + _CPU),
    ("CPU of an order, ms: 20 orders a second", _STEADY + _CPU),
    (
        "CPU of an order, ms: 20 orders a second, one command",
        "all, 20 intents a second: CPU for an intent, ms: before, new",
    ),
    ("orders filled in a second, 20 accounts", f"{_BURST}fills a second: before, new"),
    ("orders filled in a second, 1,000 accounts", f"{_MANY}fills a second: before, new"),
)
OLDER = " **Older than the code that it covers.**"


def demo_table() -> str:
    """Both arms, as the description of the demo's picture has them."""
    arms = ARM.findall((ROOT / "docs/images/demo.svg").read_text())
    lines = ["| | asked | at the broker | doubled | lost track of |", "|---|---:|---:|---:|---:|"]
    return "\n".join([*lines, *(f"| {' | '.join(arm)} |" for arm in arms)])


def plain_client() -> str:
    code = (ROOT / "server/src/openbell_server/devtools/demo/plain_client.py").read_text()
    return f"```python\n{code}```"


def proof_table(folder: str) -> str:
    lines = ["| `make proof PART=` | What it does | Measured |", "|---|---|---|"]
    for part, what, names in PROOFS:
        _, figures = _measured(part)
        measured = "; ".join(f"{name}: {figures[name]}" for name in names)
        lines.append(f"| [`{part}`]({folder}measurements.md#{part}) | {what.format(figures)} | {measured} |")
    return "\n".join(lines)


def promise(name: str) -> str:
    """The figure of a promise, and when it was measured."""
    part, figure, what = PROMISES[name]
    result, figures = _measured(part)
    link = f"[All figures of `{part}`](measurements.md#{part})"
    return f"> **{figures[figure]}** {what.format(figures)}. {measured_when(result)} {link}"


def costs() -> str:
    """What an order costs, before execution in sets and now, and what a platform costs without orders."""
    cost, figures = _measured("cost")
    idle, of_idle = _measured("idle")
    lines = ["| | before execution in sets | now |", "|---|---:|---:|"]
    for what, names in COSTS:
        both = [str(figures[name]).split(", ") for name in ((names,) if isinstance(names, str) else names)]
        before, now = (sum(float(values[place]) for values in both) for place in (0, 1))
        lines.append(f"| {what} | {_short(before)} | {_short(now)} |")
    before_idle, now_idle = float(str(figures["idle: CPU, before, ms/s"])), float(str(of_idle["old: CPU, ms/s"]))
    lines.append(f"| CPU of the idle platform, ms in a second | {_short(before_idle)} | {_short(now_idle)} |")
    where = "All processes, PostgreSQL, NATS, broker and load generator on one machine of two cores"
    told = f"{where}, {figures['Python']}; medians of alternating pairs."
    past = f"Idle with {int(of_idle['old: past orders'] or 0):,} past orders: {measured_when(idle)}"
    return "\n".join([*lines, "", f"{told} {measured_when(cost)} [All figures](measurements.md#cost). {past}"])


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}"


def measured_when(result: Result) -> str:
    if not result.commit:
        return f"Measured {result.date}, commit not recorded: the code may have changed since."
    return f"Measured {result.date}, commit {result.commit[:10]}." + ("" if result.is_current else OLDER)


def _measured(part: str) -> tuple[Result, dict[str, int | float | str | bool | None]]:
    result = read_result(part)
    assert result is not None, f"docs/proof/{part}.json is missing"
    return result, {str(row["figure"]): row["value"] for row in result.figures}


PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"demo": demo_table, "proof": partial(proof_table, "docs/")},
    "docs/README.md": {"demo": demo_table, "proof": partial(proof_table, "")},
    "docs/demo.md": {"demo": demo_table, "plain client": plain_client},
    "docs/performance.md": {"costs": costs},
    "docs/guarantees.md": {name: partial(promise, name) for name in PROMISES},
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
