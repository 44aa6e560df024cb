"""What was measured on one platform, and how it is shown."""

from dataclasses import dataclass
from typing import Any, Final, Self

from proof.cost_platform import Counted, Idle, Run
from proof.cost_statements import Statement

_STATEMENTS_SHOWN: Final = 40
# Not worth a line.
_MILLIS_MIN: Final = 0.004
_FIGURES: Final = ("wal_bytes", "writing_transactions", "nats_in", "nats_out")
_ONLY_RUNS: Final = ("fills_per_second", "p50_millis", "p99_millis", "seconds", "accepted", "filled", "broker_orders")


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured on one platform."""

    python: str
    tree: str
    idle: Idle
    burst: Run | None
    steady: Run | None
    counted: Counted | None

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Self:
        return cls(
            told["python"],
            told["tree"],
            Idle(**told["idle"]),
            told["burst"] and Run(**told["burst"]),
            told["steady"] and Run(**told["steady"]),
            told["counted"] and _counted(told["counted"]),
        )

    @property
    def runs(self) -> list[tuple[str, Run]]:
        return [(name, run) for name, run in (("burst", self.burst), ("steady", self.steady)) if run]


def table(report: Report) -> list[str]:
    """CPU by process and the other figures, each for one intent, as lines of text."""
    idle, runs = report.idle, [run for _, run in report.runs]
    order = runs[0].cpu_millis if runs else idle.cpu_millis
    labels = sorted({*idle.cpu_millis, *order}, key=lambda label: -order.get(label, 0))
    columns = [idle.cpu_millis, *(run.cpu_millis for run in runs)]
    lines = [report.python, _line("CPU", "idle, ms/s", *(f"{name}, ms" for name, _ in report.runs))]
    for label in labels:
        values = [column.get(label, 0.0) for column in columns]
        if max(values) >= _MILLIS_MIN:
            lines.append(_line(label, *values))
    lines.append(_line("platform", idle.total_millis, *(run.platform_millis for run in runs)))
    lines.append(_line("load generator", "", *(run.load_millis for run in runs)))
    lines.append(_line("all", "", *(run.all_millis for run in runs)))
    for name in (*_FIGURES, *_ONLY_RUNS):
        beside = getattr(idle, name) if name in _FIGURES else ""
        lines += [_line(name.replace("_", " "), beside, *(float(getattr(run, name)) for run in runs))]
    lines.append(_line("long way, share", "", *("no metric" if run.long_way is None else run.long_way for run in runs)))
    lines += [f"not filled: {reason}" for run in runs for reason in run.unfilled]
    return lines + (_counted_lines(report.counted) if report.counted else [])


def _counted(told: dict[str, Any]) -> Counted:
    statements = [Statement(**each) for each in told["by_statement"]]
    return Counted(told["statements"], told["transactions"], statements, Run(**told["run"]))


def _counted_lines(counted: Counted) -> list[str]:
    lines = [_line("statements", "calls", "ms")]
    lines += [
        f"  {each.database:15} {each.name:90.90} {each.calls:8.3f} {each.millis:8.4f}"
        for each in counted.by_statement[:_STATEMENTS_SHOWN]
    ]
    for what, figures in (("statements", counted.statements), ("transactions", counted.transactions)):
        lines += [_line(f"{what}, {database}", value) for database, value in figures.items()]
    return lines


def _line(title: str, *values: float | str) -> str:
    texts = [value if isinstance(value, str) else f"{value:.3f}" for value in values]
    return f"{title:34}" + "".join(f"{text:>14}" for text in texts)
