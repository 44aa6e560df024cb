"""The platform's processes as children: ready when they say so, drained when asked, reported when they fail."""

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from openbell_server.devtools.child_processes import ChildFailed, ProcessStamp, wait_until
from openbell_server.devtools.local_services import LocalServices
from openbell_server.devtools.stack import PROCESSES, Stack, platform_command

# Stands in for a process of the platform: says that it is ready, waits for SIGTERM, says that it has drained.
STAND_IN = """
import json, os, signal, sys, time
from openbell_server.processes.readiness import notify_ready
process, mode = sys.argv[1], os.environ.get("OPENBELL_MODE", "")
if mode == "crash":
    sys.exit("cannot go on")
def drain(*_):
    print("drained", process, time.monotonic(), file=sys.stderr)
    sys.exit(0)
signal.signal(signal.SIGTERM, drain)
settings = {key: value for key, value in os.environ.items() if key.startswith("OPENBELL_")}
print(json.dumps({"process": process, **settings}), file=sys.stderr, flush=True)
if mode != "silent":
    notify_ready()
time.sleep(60)
"""


def stand_in(process: str) -> list[str]:
    return [sys.executable, "-c", STAND_IN, process]


@pytest.fixture
def stack(services: LocalServices, tmp_path: Path) -> Iterator[Stack]:
    with Stack(services, {"OPENBELL_CURSOR_SECRET": "given"}, tmp_path, stand_in) as running:
        yield running


def first_line(stack: Stack, name: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(stack.log(name).read_text().splitlines()[0])
    return found


def test_all_start_with_the_same_settings_but_their_own_login_and_drain_in_reverse_order(
    services: LocalServices, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBELL_LOG_LEVEL", "from the caller's shell")
    stack.start_all()
    assert stack.watch() == []
    stack.stop_all()
    for name in PROCESSES:
        settings = first_line(stack, name)
        assert settings.pop("process") == name
        # An executor's name outlives it, so that its successor takes over at once.
        assert settings.pop("OPENBELL_EXECUTOR_NAME", None) == ("executor" if name == "executor" else None)
        assert stack.operations_url(name).endswith(":" + settings.pop("OPENBELL_OPERATIONS_PORT"))
        # The paper broker has a database of its own.
        own = None if name == "paper" else services.postgres.url("openbell", f"openbell_app_{name}")
        assert settings.pop("OPENBELL_DATABASE_URL", None) == own
        assert settings == stack.environment
    assert stack.environment["OPENBELL_NATS_URL"] == services.nats.url
    assert stack.environment["OPENBELL_CURSOR_SECRET"] == "given"
    ends = [float(stack.log(name).read_text().split()[-1]) for name in PROCESSES]
    assert ends == sorted(ends, reverse=True)


def test_a_replica_runs_the_same_process_with_its_own_settings(stack: Stack) -> None:
    stack.start("api")
    stack.start("api-2", {"OPENBELL_API_PORT": "1"})
    stack.wait_ready("api")
    stack.wait_ready("api-2")
    stack.restart("api-2")
    lines = stack.log("api-2").read_text().splitlines()
    started = [json.loads(line) for line in lines if line.startswith("{")]
    assert [(line["process"], line["OPENBELL_API_PORT"]) for line in started] == [("api", "1"), ("api", "1")]
    assert first_line(stack, "api")["OPENBELL_API_PORT"] == stack.environment["OPENBELL_API_PORT"] != "1"


def test_a_killed_process_has_ended_and_is_not_reported(stack: Stack) -> None:
    stack.start("relay")
    process = ProcessStamp.of(stack.pid("relay"))
    assert process
    stack.kill("relay")
    assert not process.is_running
    assert not stack.is_running("relay")
    assert stack.watch() == []
    stack.start("relay")
    stack.wait_ready("relay")
    assert stack.stop("relay") == 0


def test_a_process_that_ends_by_itself_is_reported_until_it_is_started_again(stack: Stack) -> None:
    stack.start("paper")
    stack.start("executor", {"OPENBELL_MODE": "crash"})
    assert wait_until(lambda: stack.watch() == ["executor"], 60)
    with pytest.raises(ChildFailed, match=r"executor ended \(1\):\ncannot go on"):
        stack.wait_ready("executor")
    stack.start("executor", {})
    stack.wait_ready("executor")
    assert stack.watch() == []


def test_a_process_that_stays_silent_is_not_ready(stack: Stack) -> None:
    stack.start("stream", {"OPENBELL_MODE": "silent"})
    with pytest.raises(ChildFailed, match="stream is not ready"):
        stack.wait_ready("stream", 0.5)


def test_a_paused_process_goes_on(stack: Stack) -> None:
    stack.start("executor")
    stack.kill("executor", signal.SIGSTOP)
    assert stack.is_running("executor")
    stack.kill("executor", signal.SIGCONT)
    stack.wait_ready("executor")
    assert stack.stop("executor") == 0


def test_a_running_process_is_not_started_twice(stack: Stack) -> None:
    stack.start("api")
    with pytest.raises(ChildFailed, match="already runs"):
        stack.start("api")


def test_the_real_command_is_the_servers_own() -> None:
    assert platform_command("api") == [sys.executable, "-m", "openbell_server", "api"]
