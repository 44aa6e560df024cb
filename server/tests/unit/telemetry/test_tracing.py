"""Spans reach a collector with the attributes that are named, and nobody pays for them without one."""

import subprocess
import sys
import threading
import time

import pytest

from openbell_server.devtools.child_processes import free_port, wait_until
from openbell_server.telemetry.tracing import SEND_SECONDS, open_tracing, record_nothing
from support.environment.otlp_collector import Collector


def test_a_span_reaches_the_collector_with_its_time_and_its_attributes() -> None:
    told: dict[str, str | int] = {"http.route": "/v1/things", "http.response.status_code": 200}
    with Collector() as collector:
        record, close = open_tracing("api", f"{collector.url}/")
        record("GET /v1/things", 0.25, told)
        close()
        assert wait_until(lambda: bool(collector.spans()), 60)
        assert collector.spans() == [("openbell-api", "GET /v1/things", told, 250_000_000)]


def test_an_attribute_that_is_not_named_is_not_told() -> None:
    with Collector() as collector:
        record, close = open_tracing("api", collector.url)
        with pytest.raises(AssertionError, match=r"account\.id"):
            record("x", 0.0, {"account.id": "1"})
        close()
        assert collector.spans() == []


def test_a_collector_that_is_away_holds_nobody_up() -> None:
    before = threading.active_count()
    record, close = open_tracing("api", f"http://127.0.0.1:{free_port()}")
    for _ in range(5000):
        record("x", 0.0, {"http.route": "/"})
    begun = time.monotonic()
    close()
    assert time.monotonic() - begun < SEND_SECONDS + 5
    # Its threads draw random numbers while they give up, and must not do so inside somebody else's test.
    assert wait_until(lambda: threading.active_count() <= before, 60)


def test_without_a_collector_nothing_is_imported() -> None:
    assert open_tracing("api", "")[0] is record_nothing
    looking = (
        "import sys, openbell_server.processes.api, openbell_server.processes.executor;"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", looking], timeout=60, check=False).returncode == 0
