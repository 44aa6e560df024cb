"""What an intent costs from accept to fill: CPU by process, statements, transactions, and how many fills a second.

At full size beside the commit of cost_before.txt, in alternating pairs; at the gate's size only counts decide.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from proof.cost_platform import Run
from proof.cost_report import Report
from proof.cost_run import Wanted, measure, python_used
from proof.cost_trees import measure_tree, python_of, tree_before
from proof.figures import Figures
from proof.results import ROOT

PAIRS: Final = 5
MANY_ACCOUNTS_PAIRS: Final = 3
BURST: Final = 2000
MANY_ACCOUNTS: Final = 1000
# What an idle platform uses in these seconds is subtracted; the part `idle` measures it for itself.
IDLE_SECONDS: Final = 30
RATE: Final = 20
GATE_BURST: Final = 200
# What an intent may need at the gate's size, on the platform's and the broker's database together: some times what it
# needs on an idle machine, where the sets are larger than on a busy one.
GATE_STATEMENTS_MAX: Final = 3.0
GATE_WRITING_TRANSACTIONS_MAX: Final = 1.0


@dataclass(frozen=True, slots=True)
class Pair:
    """The same measurement on both trees, one right after the other, and on this tree run by the command `all`."""

    before: Report
    new: Report
    by_all: Report | None = None


def prove(figures: Figures) -> None:
    figures.shown("Python", python_used())
    if figures.size == "gate":
        _gate(figures)
        return
    with tree_before() as tree:
        full = ("--burst", str(BURST), "--idle", str(IDLE_SECONDS), "--rate", str(RATE))
        pairs = _pairs(tree, PAIRS, full, with_all=True)
        _show_burst(figures, f"{Wanted().accounts} accounts", _bursts(pairs), 0.2, 6)
        _show_steady(figures, [(_steady(pair.before), _steady(pair.new)) for pair in pairs])
        _show_all(figures, pairs)
        _show_counts(figures, pairs[0])
        _show_idle(figures, pairs)
        many = ("--burst", str(BURST), "--accounts", str(MANY_ACCOUNTS), "--idle", str(IDLE_SECONDS))
        _show_burst(figures, f"{MANY_ACCOUNTS} accounts", _bursts(_pairs(tree, MANY_ACCOUNTS_PAIRS, many)))


def _gate(figures: Figures) -> None:
    report = measure(Wanted(burst=0, idle_seconds=1, counted=GATE_BURST, with_transactions=False))
    assert report.counted
    run, statements = report.counted.run, report.counted.statements
    _show_exact(figures, "burst", [run])
    transactions = round(run.writing_transactions, 2)
    figures.at_most("writing transactions for an intent", transactions, GATE_WRITING_TRANSACTIONS_MAX)
    if statements:
        figures.at_most("statements for an intent", round(sum(statements.values()), 2), GATE_STATEMENTS_MAX)
    else:
        figures.shown("statements for an intent", "skipped: this PostgreSQL cannot count them")
    _show_long_way(figures, "burst", [run])


def _pairs(tree: Path, number: int, arguments: Sequence[str], *, with_all: bool = False) -> list[Pair]:
    """Alternating runs, each on a new platform; statements are counted in the first pair only."""
    pairs = []
    interpreters = python_of(tree), python_of(ROOT)
    for turn in range(number):
        counted = ("--statements",) if with_all and turn == 0 else ()
        before = measure_tree(tree, interpreters[0], [*arguments, *counted])
        new = measure_tree(ROOT, interpreters[1], [*arguments, *counted])
        by_all = measure_tree(ROOT, interpreters[1], [*arguments, "--all"]) if with_all else None
        pairs.append(Pair(before, new, by_all))
        told = [
            f"{_burst(each).all_millis:.2f} ms, {_burst(each).fills_per_second:.0f} fills/s"
            for each in (before, new, by_all)
            if each
        ]
        print(f"pair {turn + 1} of {number}, {_burst(new).accounts} accounts: {'; '.join(told)}", flush=True)
    return pairs


def _burst(report: Report) -> Run:
    assert report.burst
    return report.burst


def _bursts(pairs: Sequence[Pair]) -> list[tuple[Run, Run]]:
    return [(_burst(pair.before), _burst(pair.new)) for pair in pairs]


def _steady(report: Report) -> Run:
    assert report.steady
    return report.steady


Runs = Sequence[tuple[Run, Run]]


def _show_burst(
    figures: Figures, name: str, runs: Runs, cpu_bar: float | None = None, fills_bar: float | None = None
) -> None:
    name = f"{name}, burst of {runs[0][1].intents}"
    _show_runs(figures, name, runs)
    cpu = _ratio(runs, lambda run: run.all_millis)
    fills = _ratio(runs, lambda run: run.fills_per_second)
    _show_before_and_new(figures, f"{name}: fills a second", runs, lambda run: run.fills_per_second)
    if cpu_bar is None or fills_bar is None:
        figures.shown(f"{name}: CPU for an intent, new / before", cpu)
        figures.shown(f"{name}: fills a second, new / before", fills)
    else:
        figures.at_most(f"{name}: CPU for an intent, new / before", cpu, cpu_bar)
        figures.at_least(f"{name}: fills a second, new / before", fills, fills_bar)


def _show_steady(figures: Figures, runs: Runs) -> None:
    name = f"{Wanted().accounts} accounts, {RATE} intents a second"
    _show_runs(figures, name, runs)
    _show_before_and_new(figures, f"{name}: p50 of a submit, ms", runs, lambda run: run.p50_millis)
    figures.at_most(f"{name}: CPU for an intent, new / before", _ratio(runs, lambda run: run.all_millis), 0.6)


def _show_all(figures: Figures, pairs: Sequence[Pair]) -> None:
    """The same by the command `all`, which has fewer processes."""
    both = [(pair.before, pair.by_all) for pair in pairs if pair.by_all]
    bursts = [(_burst(before), _burst(by_all)) for before, by_all in both]
    steady = [(_steady(before), _steady(by_all)) for before, by_all in both]
    for name, runs in (("burst", bursts), (f"{RATE} intents a second", steady)):
        _show_exact(figures, f"all, {name}", [run for _, run in runs])
        _show_before_and_new(figures, f"all, {name}: CPU for an intent, ms", runs, lambda run: run.all_millis)
    figures.shown("all, burst: CPU for an intent, new / before", _ratio(bursts, lambda run: run.all_millis))
    figures.shown("all, burst: fills a second, new / before", _ratio(bursts, lambda run: run.fills_per_second))
    cpu = _ratio(steady, lambda run: run.all_millis)
    figures.at_most(f"all, {RATE} intents a second: CPU for an intent, new / before", cpu, 0.5)


def _show_runs(figures: Figures, name: str, runs: Runs) -> None:
    """What bursts and steady intents have in common."""
    _show_exact(figures, name, [run for pair in runs for run in pair])
    _show_before_and_new(
        figures, f"{name}: CPU for an intent, load generator included, ms", runs, lambda r: r.all_millis
    )
    _show_before_and_new(figures, f"{name}: CPU of the load generator, ms", runs, lambda run: run.load_millis)
    labels = {label for pair in runs for run in pair for label, millis in run.cpu_millis.items() if millis >= 0.01}
    for label in sorted(labels, key=lambda label: -_median([before for before, _ in runs], _cpu_of(label))):
        _show_before_and_new(figures, f"{name}: CPU of {label}, ms", runs, _cpu_of(label))
    _show_before_and_new(figures, f"{name}: WAL for an intent, bytes", runs, lambda run: run.wal_bytes)
    _show_before_and_new(figures, f"{name}: writing transactions", runs, lambda run: run.writing_transactions)
    _show_before_and_new(figures, f"{name}: NATS messages in", runs, lambda run: run.nats_in)
    _show_before_and_new(figures, f"{name}: NATS messages out", runs, lambda run: run.nats_out)
    _show_long_way(figures, name, [new for _, new in runs])


def _show_exact(figures: Figures, name: str, runs: Sequence[Run]) -> None:
    wrong = sum(not run.is_exact for run in runs)
    figures.exactly(f"{name}: runs with an intent that was not filled exactly once", wrong, 0)
    for reason in [reason for run in runs for reason in run.unfilled]:
        print(f"not filled: {reason}", flush=True)


def _show_long_way(figures: Figures, name: str, runs: Sequence[Run]) -> None:
    shares = [run.long_way for run in runs if run.long_way is not None]
    told = round(median(shares), 4) if shares else "skipped: the executor has no such metric"
    figures.shown(f"{name}: share of intents that took the long way", told)


def _show_counts(figures: Figures, pair: Pair) -> None:
    before, new = pair.before.counted, pair.new.counted
    assert before
    assert new
    for what, bar in (("statements", 3.0), ("transactions", 0.5)):
        for database, value in sorted(getattr(new, what).items()):
            name = f"burst: {what} for an intent, {database}"
            figures.shown(f"{name}, before", round(getattr(before, what).get(database, 0.0), 3))
            if database == "openbell":
                figures.at_most(name, round(value, 3), bar)
            else:
                figures.shown(name, round(value, 3))


def _show_idle(figures: Figures, pairs: Sequence[Pair]) -> None:
    figures.shown("idle: CPU, before, ms/s", round(median(pair.before.idle.total_millis for pair in pairs), 1))
    for label in sorted({label for pair in pairs for label in pair.new.idle.cpu_millis}):
        before, new = (
            median(report.idle.cpu_millis.get(label, 0.0) for report in reports)
            for reports in ([pair.before for pair in pairs], [pair.new for pair in pairs])
        )
        if max(before, new) >= 0.1:
            figures.shown(f"idle: CPU of {label}, ms/s: before, new", f"{before:.2f}, {new:.2f}")
    figures.shown("idle: CPU, ms/s", round(median(pair.new.idle.total_millis for pair in pairs), 1))


Figure = Callable[[Run], float]


def _cpu_of(label: str) -> Figure:
    return lambda run: run.cpu_millis.get(label, 0.0)


def _median(runs: Sequence[Run], figure: Figure) -> float:
    return median(map(figure, runs))


def _show_before_and_new(figures: Figures, name: str, runs: Runs, figure: Figure) -> None:
    before, new = (_median([pair[place] for pair in runs], figure) for place in (0, 1))
    figures.shown(f"{name}: before, new", f"{before:.3f}, {new:.3f}")


def _ratio(runs: Runs, figure: Figure) -> float:
    return round(median(figure(new) / figure(before) for before, new in runs), 3)
