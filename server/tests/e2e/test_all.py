"""The whole platform as one command, without NATS: two processes with logins of their own, restarted when they end."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from openbell import Client
from openbell_server.devtools.child_processes import ProcessStamp, wait_until
from openbell_server.devtools.local_platform import LocalPlatform

SECONDS = 180


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalPlatform]:
    logs = tmp_path_factory.mktemp("logs")
    with LocalPlatform(logs, {"OPENBELL_NATS_URL": ""}, processes=("paper", "all")) as running:
        yield running


@pytest.fixture(autouse=True)
def all_running(platform: LocalPlatform) -> None:
    if not platform.stack.is_running("all"):
        platform.stack.start("all", {})
        platform.stack.wait_ready("all")


def running(platform: LocalPlatform) -> dict[str, ProcessStamp]:
    """Both processes by name."""
    found = {}
    supervisor = ProcessStamp.of(platform.stack.pid("all"))
    assert supervisor is not None
    for stamp in supervisor.descendants():
        words = Path(f"/proc/{stamp.pid}/cmdline").read_text().rstrip("\0").split("\0")
        if "openbell_server" in words:
            found[words[-1]] = stamp
    return found


def environment(stamp: ProcessStamp) -> dict[str, str]:
    entries = Path(f"/proc/{stamp.pid}/environ").read_text().rstrip("\0").split("\0")
    return dict(entry.split("=", 1) for entry in entries)


def fills(client: Client) -> bool:
    execution = client.wait(client.buy("AAPL", 10).intent_id, SECONDS).execution
    return execution is not None and execution.status == "FILLED"


def is_ready(platform: LocalPlatform, part: str) -> bool:
    try:
        return httpx.get(f"{platform.stack.operations_url(part)}/readyz", timeout=60).status_code == 200
    except httpx.HTTPError:
        return False


def test_an_order_is_filled_without_nats(client: Client, platform: LocalPlatform) -> None:
    assert fills(client)
    assert all(is_ready(platform, part) for part in ("front", "back"))


def test_each_process_has_its_own_login_and_only_the_back_has_the_private_key(platform: LocalPlatform) -> None:
    parts = {name: environment(stamp) for name, stamp in running(platform).items()}
    assert sorted(parts) == ["back", "front"]
    for name, settings in parts.items():
        assert f"//openbell_app_{name}@" in settings["OPENBELL_DATABASE_URL"]
        assert not [key for key in settings if key.startswith(("OPENBELL_FRONT_", "OPENBELL_BACK_"))]
    assert parts["front"]["OPENBELL_VAULT_KEY"].endswith("public.json")
    assert parts["back"]["OPENBELL_VAULT_KEY"].endswith("private.json")


@pytest.mark.parametrize("part", ["front", "back"])
def test_a_process_that_was_killed_is_started_again(client: Client, platform: LocalPlatform, part: str) -> None:
    killed = running(platform)[part]
    killed.kill()
    assert wait_until(lambda: not killed.is_running, SECONDS)
    assert wait_until(lambda: part in running(platform) and is_ready(platform, part), SECONDS)
    assert fills(client)


def test_both_processes_end_with_a_supervisor_that_was_killed(platform: LocalPlatform) -> None:
    parts = running(platform)
    os.kill(platform.stack.pid("all"), signal.SIGKILL)
    assert wait_until(lambda: not any(stamp.is_running for stamp in parts.values()), SECONDS)


def test_a_stop_signal_ends_all_in_order(platform: LocalPlatform) -> None:
    parts = running(platform)
    assert platform.stack.stop("all") == 0
    assert not any(stamp.is_running for stamp in parts.values())
    assert platform.stack.log("all").read_text().count('"event": "stopped"') >= len(parts)


def test_settings_that_an_operator_must_correct_end_the_command_with_their_message(platform: LocalPlatform) -> None:
    platform.stack.stop("all")
    platform.stack.start("all", {"OPENBELL_CURSOR_SECRET": "short"})
    assert wait_until(lambda: not platform.stack.is_running("all"), SECONDS)
    assert platform.stack.returncode("all") == 2
    assert "OPENBELL_CURSOR_SECRET can be guessed" in platform.stack.log("all").read_text()
