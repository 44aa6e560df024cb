"""Metrics of requests, streams and relay. No label contains an account, organization, symbol or error text."""

from collections.abc import Callable
from functools import cache
from typing import Final

from openbell_server.application.events.relay_outbox import RelayBatch
from openbell_server.processes.operations_port import Operations

# A queue, the result of one batch, and its duration in seconds.
ObserveRound = Callable[[str, RelayBatch, float], None]
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def watch_requests(operations: Operations) -> Callable[[str, str | None, int, float], None]:
    """Count requests by route template and trace them."""
    requests = operations.instruments.counter(
        "openbell_api_requests_total",
        "Requests that were answered; an unknown path has the route `none`.",
        *("method", "route", "status"),
    )
    seconds = operations.instruments.histogram(
        "openbell_api_request_seconds", "How long requests took until they were answered.", "method", "route"
    )

    @cache
    def labelled(method: str, route: str, hundreds: int) -> tuple[Callable[[], None], Callable[[float], None]]:
        return requests.labels(method, route, f"{hundreds}xx").inc, seconds.labels(method, route).observe

    def observe(method: str, route: str | None, status: int, elapsed: float) -> None:
        # The method is the caller's text, so unknown ones share one label.
        method, route = method if method in _METHODS else "other", route or "none"
        count, observe_seconds = labelled(method, route, status // 100)
        count()
        observe_seconds(elapsed)
        operations.record_span(
            f"{method} {route}",
            elapsed,
            {"http.request.method": method, "http.route": route, "http.response.status_code": status},
        )

    return observe


def watch_followers(operations: Operations, count: Callable[[], int]) -> None:
    about = "Streams of events that are open."
    operations.instruments.read("gauge", "openbell_stream_followers", about, (), lambda: {(): count()})


def watch_pruning(operations: Operations) -> Callable[[int], None]:
    about = "Events that this process removed because they were older than the retention time."
    return operations.instruments.counter("openbell_events_pruned_total", about).inc


def watch_rounds(operations: Operations) -> ObserveRound:
    """Count the relay's rows by queue, and trace each batch that had rows."""
    rows = operations.instruments.counter(
        "openbell_relay_rows_total",
        "Rows of a queue: claimed by this process, completed, released (failed ones included), failed permanently, or"
        " completed unclaimed because their action was taken up.",
        *("queue", "result"),
    )

    def observe(queue: str, batch: RelayBatch, elapsed: float) -> None:
        counts = {
            "claimed": batch.claimed,
            "completed": batch.completed,
            "released": batch.released,
            "taken_up": batch.taken_up,
        }
        for result, count in {**counts, "failed": len(batch.failed)}.items():
            rows.labels(queue, result).inc(count)
        if batch.claimed or batch.taken_up:
            counted = {f"openbell.rows.{result}": count for result, count in counts.items()}
            operations.record_span("relay round", elapsed, {"openbell.queue": queue, **counted})

    return observe
