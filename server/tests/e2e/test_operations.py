"""A platform as `dev` starts it passes its own doctor, and every process shows the metrics that its page lists."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator, Mapping

import httpx
import pytest
from metrics_page import described_metrics

from openbell import Client, Market
from openbell_server.devtools.child_processes import wait_until
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.devtools.stack import PROCESSES
from support.environment.front_door import ANSWER_SECONDS, answered
from support.environment.otlp_collector import Collector

ROUTE = "/v1/accounts/{account_id}/intents"
DOCTOR = [sys.executable, "-m", "openbell_server", "doctor"]


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[LocalPlatform]:
    with LocalPlatform(tmp_path_factory.mktemp("logs"), {"OPENBELL_OTLP_URL": collector.url}) as running:
        yield running


def test_an_order_leaves_a_span_at_the_api_the_relay_and_the_executor_and_none_tells_whose_it_is(
    platform: LocalPlatform, collector: Collector, client: Client
) -> None:
    client.buy("AAPL", Market(1))
    wanted = {
        ("openbell-api", f"POST {ROUTE}"): {
            "http.request.method": "POST",
            "http.route": ROUTE,
            "http.response.status_code": 202,
        },
        ("openbell-relay", "relay round"): {
            "openbell.queue": "intents",
            "openbell.rows.claimed": 0,
            "openbell.rows.completed": 0,
            "openbell.rows.released": 0,
            "openbell.rows.taken_up": 1,
        },
        ("openbell-executor", "broker call"): {
            "openbell.broker": "paper",
            "openbell.action_type": "CREATE",
            "openbell.outcome": "accepted",
        },
    }

    def told() -> dict[tuple[str, str], dict[str, str | int]]:
        return {
            (service, name): attributes
            for service, name, attributes, _ in collector.spans()
            if attributes.get("openbell.queue") != "accounts"
        }

    assert wait_until(lambda: wanted.keys() <= told().keys(), 180), told()
    assert {key: told()[key] for key in wanted} == wanted
    sent = b"".join(request.SerializeToString() for request in collector.received)
    for secret in (platform.seeded.api_key, str(platform.seeded.account_ids[0]), "AAPL"):
        assert secret.encode() not in sent


@pytest.mark.parametrize("name", PROCESSES)
def test_every_process_is_ready_and_shows_the_metrics_of_its_page(platform: LocalPlatform, name: str) -> None:
    url = platform.stack.operations_url(name)
    ready = answered(lambda: httpx.get(f"{url}/readyz", trust_env=False, timeout=60))
    assert (ready.status_code, ready.json()["process"]) == (200, name), ready.text
    text = httpx.get(f"{url}/metrics", trust_env=False, timeout=60).raise_for_status().text
    shown = {line.split()[2]: line.split()[3] for line in text.splitlines() if line.startswith("# TYPE")}
    assert shown == {metric.name: metric.kind for metric in described_metrics()[name]}


@pytest.mark.parametrize("name", PROCESSES)
def test_a_new_platform_passes_its_own_doctor(platform: LocalPlatform, name: str) -> None:
    said: list[str] = []

    def is_well() -> bool:
        run = subprocess.run(
            [*DOCTOR, "--for", name],
            env=platform.stack.environment_of(name),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        said.append(run.stdout + run.stderr)
        return run.returncode == 0 and run.stdout.splitlines()[-1].endswith(" ok.")

    # It says "cannot tell" of what does not answer within its five seconds.
    assert wait_until(is_well, ANSWER_SECONDS), said[-1]


def on_a_terminal(environment: Mapping[str, str], columns: int) -> tuple[int, str]:
    """The command's status and what it writes to a terminal of so many columns."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        DOCTOR, env={**environment, "COLUMNS": str(columns), "TERM": "dumb"}, stdin=theirs, stdout=theirs, stderr=theirs
    ) as child:
        os.close(theirs)
        said = b""
        try:
            while chunk := os.read(ours, 4096):
                said += chunk
        except OSError:  # Linux says so when the last writer has left.
            pass
        os.close(ours)
        return child.wait(120), said.decode()


def test_findings_with_problems_are_readable_in_80_columns_and_show_no_secret(platform: LocalPlatform) -> None:
    settings = platform.stack.environment_of("api") | {
        "OPENBELL_DATABASE_URL": "postgresql://openbell_app:planted@127.0.0.1:1/openbell",
        "OPENBELL_CURSOR_SECRET": "planted",
    }
    status, said = on_a_terminal(settings, 80)
    assert status == 1
    assert "PostgreSQL did not accept" in said
    assert "planted" not in said
    assert max(len(line.rstrip()) for line in said.splitlines()) <= 80
