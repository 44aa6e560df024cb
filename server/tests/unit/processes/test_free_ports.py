"""Ports are given to one only."""

import subprocess
import sys

import pytest

from openbell_server.devtools import child_processes
from openbell_server.devtools.child_processes import ChildFailed, free_port

ASK_FOR_ONE = """
import sys
from openbell_server.devtools import child_processes
child_processes._PORTS = [int(sys.argv[1])]
try:
    print(child_processes.free_port())
except child_processes.ChildFailed:
    print("none")
"""


def test_a_port_is_not_given_twice_though_nothing_listens_there_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setattr(child_processes, "_PORTS", [port])
    with pytest.raises(ChildFailed, match="no free port"):
        free_port()


def test_a_port_is_not_given_to_another_process_while_the_first_one_lives() -> None:
    command = [sys.executable, "-c", ASK_FOR_ONE, str(free_port())]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout == "none\n"
