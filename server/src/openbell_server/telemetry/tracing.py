"""Spans for an OpenTelemetry collector, sent after they have ended, with the listed attributes only."""

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
        "openbell.rows.taken_up",
    }
)
SPANS_WAITING_MAX: Final = 2048
SPANS_AT_ONCE_MAX: Final = 256
SEND_EVERY_SECONDS: Final = 1.0
SEND_SECONDS: Final = 2.0

# A span that ends now: its name, its duration in seconds, and its attributes.
RecordSpan = Callable[[str, float, Mapping[str, str | int]], None]


def record_nothing(_: str, __: float, ___: Mapping[str, str | int]) -> None:
    """Used without a collector."""


def open_tracing(process: str, otlp_url: str) -> tuple[RecordSpan, Callable[[], None]]:
    """A function that records spans, and one that sends the remaining ones.

    A background thread sends; spans beyond its queue are dropped.
    """
    if not otlp_url:
        return record_nothing, lambda: None
    # Imported here because the import is slow and only needed with a collector.
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
    # Resource.create would add data of the environment and the machine.
    provider = TracerProvider(resource=Resource({"service.name": f"openbell-{process}"}), shutdown_on_exit=False)
    provider.add_span_processor(sender)
    tracer = provider.get_tracer("openbell")

    def record(name: str, seconds: float, attributes: Mapping[str, str | int]) -> None:
        unknown = attributes.keys() - ATTRIBUTES
        assert not unknown, f"not in ATTRIBUTES: {', '.join(unknown)}"
        ended = time.time_ns()
        span = tracer.start_span(name, start_time=ended - int(seconds * 1e9), attributes=dict(attributes))
        span.end(ended)

    def close() -> None:
        # An unreachable collector must not delay the end of the process.
        closing = threading.Thread(target=provider.shutdown, daemon=True)
        closing.start()
        closing.join(SEND_SECONDS)

    return record, close
