"""An OpenTelemetry collector on loopback that decodes what it gets."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class _Take(BaseHTTPRequestHandler):
    server: "_Server"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/v1/traces":
            self.server.received.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200 if self.path == "/v1/traces" else 404)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    received: list[ExportTraceServiceRequest]


class Collector:
    """Takes spans while it is open."""

    def __init__(self) -> None:
        self._server = _Server(("127.0.0.1", 0), _Take)
        self.received = self._server.received = []
        self._thread = Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def spans(self) -> list[tuple[str, str, dict[str, str | int], int]]:
        """What came: the service, the span's name, its attributes, and the nanoseconds that it took."""
        return [
            (
                " ".join(each.value.string_value for each in resource.resource.attributes),
                span.name,
                {each.key: each.value.string_value or each.value.int_value for each in span.attributes},
                span.end_time_unix_nano - span.start_time_unix_nano,
            )
            for request in list(self.received)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
