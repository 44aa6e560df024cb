"""Processes that tests fork instead of starting them: the same command, environment, log and exit status."""

import os
import signal
import socket
from pathlib import Path

from openbell_server.devtools.child_processes import ProcessStamp
from openbell_server.devtools.stack import platform_command
from support.environment.forked_processes import ForkedChild


def forked(process: str, log: Path, port: int = 1) -> ForkedChild:
    database = {"OPENBELL_DATABASE_URL": f"postgresql://127.0.0.1:{port}/none"}
    return ForkedChild(platform_command(process), log=log, environment={"PATH": os.environ["PATH"], **database})


def test_a_forked_command_has_its_own_environment_and_log_and_its_status_is_known(tmp_path: Path) -> None:
    helped, refused = forked("--help", tmp_path / "help"), forked("relay", tmp_path / "relay")
    assert (helped.wait(60), refused.wait(60)) == (0, 2)
    assert "Run and operate Openbell." in helped.log.read_text()
    assert "The database did not answer" in refused.log.read_text()


def test_a_forked_process_is_killed_as_any_other(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        child = forked("relay", tmp_path / "log", silent.getsockname()[1])
        stamp = ProcessStamp.of(child.pid)
        assert child.destroy() == -signal.SIGKILL
    assert stamp is not None
    assert not stamp.is_running
