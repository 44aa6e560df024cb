"""Spans for an OpenTelemetry collector: each is told when it has ended, and carries what is named here and no more."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

ATTRIBUTES: Final = frozenset(
    {
        "http.request.method",
        "http.response.status_code",
        "http.route",
        "openbell.action_type",
        "openbell.broker",
        "openbell.outcome",
        "openbell.queue",
        "openbell.rows.claimed",
        "openbell.rows.completed",
        "openbell.rows.released",
    }
)
SPANS_WAITING_MAX: Final = 2048
SPANS_AT_ONCE_MAX: Final = 256
SEND_EVERY_SECONDS: Final = 1.0
SEND_SECONDS: Final = 2.0

# A span by its name, how many seconds it took until now, and its attributes.
RecordSpan = Callable[[str, float, Mapping[str, str | int]], None]


def record_nothing(_: str, __: float, ___: Mapping[str, str | int]) -> None:
    """For a process without a collector."""


def open_tracing(process: str, otlp_url: str) -> tuple[RecordSpan, Callable[[], None]]:
    """How to record spans, and how to send the last of them; a thread sends, and what it cannot hold is dropped."""
    if not otlp_url:
        return record_nothing, lambda: None
    # Imported here: without a collector nobody pays for it.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    sender = BatchSpanProcessor(
        OTLPSpanExporter(endpoint=f"{otlp_url.rstrip('/')}/v1/traces", timeout=SEND_SECONDS),
        max_queue_size=SPANS_WAITING_MAX,
        max_export_batch_size=SPANS_AT_ONCE_MAX,
        schedule_delay_millis=SEND_EVERY_SECONDS * 1000,
        export_timeout_millis=SEND_SECONDS * 1000,
    )
    # Not Resource.create: it would add what it finds in the environment and on the machine.
    provider = TracerProvider(resource=Resource({"service.name": f"openbell-{process}"}), shutdown_on_exit=False)
    provider.add_span_processor(sender)
    tracer = provider.get_tracer("openbell")

    def record(name: str, seconds: float, attributes: Mapping[str, str | int]) -> None:
        unknown = attributes.keys() - ATTRIBUTES
        assert not unknown, f"not among the attributes that may be told: {', '.join(unknown)}"
        ended = time.time_ns()
        span = tracer.start_span(name, start_time=ended - int(seconds * 1e9), attributes=dict(attributes))
        span.end(ended)

    def close() -> None:
        # A collector that is away must not hold up the end of the process.
        closing = threading.Thread(target=provider.shutdown, daemon=True)
        closing.start()
        closing.join(SEND_SECONDS)

    return record, close
