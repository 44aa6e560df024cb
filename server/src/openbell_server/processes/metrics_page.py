"""The page that lists every metric, made from the code that registers them."""

from typing import Any, Final, cast

from openbell_server.domain.market_calendars import MarketCalendars
from openbell_server.processes.calendar_ends import watch_calendars
from openbell_server.processes.execution_metrics import (
    watch_budgets,
    watch_execution,
    watch_queues,
    watch_reconciliation,
)
from openbell_server.processes.limits import watch_limits
from openbell_server.processes.metrics import watch_followers, watch_pruning, watch_requests, watch_rounds
from openbell_server.processes.observed_session import BrokerMetrics
from openbell_server.processes.operations import Operations
from openbell_server.processes.webhooks import watch_webhooks
from openbell_server.telemetry.instruments import Described

# Nothing is read from it: what metrics are made of is told before anything is counted.
_NOTHING: Final = cast("Any", None)
_INTRODUCTION: Final = """# Metrics

Each process shows its own at `/metrics` of its operations port (`OPENBELL_OPERATIONS_PORT`, see
[settings](settings.md)), beside `/healthz` (it lives) and `/readyz` (it can work: 200, or 503 with a sentence).
`openbell-server dev` prints where. No label names an account, an organization, a symbol, a caller or an error. Numbers
of the database are read when somebody looks, at most every five seconds. Made by `make generate`.

| Metric | Type | Labels | Processes | Meaning |
|---|---|---|---|---|
"""
_ALERTS: Final = """
[alerts.yml](alerts.yml) has rules for Prometheus about the things that somebody must know of.

With `OPENBELL_OTLP_URL` each REST request, each round of a relay that had rows, and each command to a broker is also a
span for an OpenTelemetry collector (OTLP over HTTP), with the route and the status, the queue and its counts, or the
broker, the action's type and the outcome, and nothing else. A thread sends them; what it cannot hold is dropped, and
without the setting nothing of it is loaded.
"""


def described_metrics() -> dict[str, list[Described]]:
    """By process, what it shows."""
    api, stream, relay, executor, paper = (Operations(name) for name in ("api", "stream", "relay", "executor", "paper"))
    for process in (api, stream, relay, executor):
        process.watch_database(_NOTHING)
        process.watch_nats(_NOTHING, needed=False)
    for process in (api, stream):
        watch_limits(process, cast("Any", _Limits))
    for process in (api, executor):
        watch_calendars(process, MarketCalendars({}))
    watch_requests(api)
    watch_followers(stream, _NOTHING)
    watch_queues(relay, _NOTHING)
    watch_rounds(relay)
    watch_webhooks(relay, _NOTHING, _NOTHING)
    watch_pruning(relay)
    watch_execution(executor, _NOTHING, _NOTHING, _NOTHING)
    watch_budgets(executor, {})
    watch_reconciliation(executor, _NOTHING, _NOTHING)
    BrokerMetrics(executor)
    return {each.process: each.instruments.described for each in (api, stream, relay, executor, paper)}


class _Limits:
    counts = None


def metrics_page() -> str:
    """docs/metrics.md."""
    shown: dict[Described, list[str]] = {}
    for process, metrics in described_metrics().items():
        for metric in metrics:
            shown.setdefault(metric, []).append(process)
    every = len(described_metrics())
    rows = [
        f"| `{metric.name}` | {metric.kind} | {', '.join(f'`{label}`' for label in metric.labels)} |"
        f" {'all' if len(processes) == every else ', '.join(processes)} | {metric.meaning} |\n"
        for metric, processes in sorted(shown.items(), key=lambda each: each[0].name)
    ]
    return _INTRODUCTION + "".join(rows) + _ALERTS
