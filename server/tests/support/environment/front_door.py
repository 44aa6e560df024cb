"""Does what a stranger does: runs README's blocks in a checkout, starts `dev`, presses Ctrl-C, looks what is left."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from openbell_server.devtools.child_processes import ProcessStamp, wait_until
from support.environment.doc_blocks import EXECUTED, ROOT, blocks

START_SECONDS = 180
STOP_SECONDS = 90
# For what a starved machine does not do in the time that the platform gives itself.
ANSWER_SECONDS = 120
_LISTENING = "0A"


def readme_blocks() -> list[tuple[str, str]]:
    """Language and text of every block that a reader runs, in order."""
    return [(block.tag, block.text) for block in blocks("README.md") if block.tag in EXECUTED]


def clone(folder: Path) -> Path:
    """A fresh clone of what is committed here."""
    checkout = folder / "openbell"
    run(["git", "clone", "--quiet", str(ROOT), str(checkout)], folder, 60)
    return checkout


def run(command: list[str], folder: Path, seconds: float, environment: dict[str, str] | None = None) -> str:
    """Run to its end and return what it printed; a failure shows it."""
    result = subprocess.run(
        command,
        cwd=folder,
        timeout=seconds,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        env=plain_environment() | (environment or {}),
    )
    assert result.returncode == 0, f"{command}: {result.returncode}\n{result.stdout[-3000:]}"
    return result.stdout


def answered(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """The first answer that is another than that nobody can answer now."""
    answers: list[httpx.Response] = []

    def is_answered() -> bool:
        answers.append(ask())
        return answers[-1].status_code != httpx.codes.SERVICE_UNAVAILABLE

    wait_until(is_answered, ANSWER_SECONDS)
    return answers[-1]


def plain_environment() -> dict[str, str]:
    """Ours, without what a make or an activated environment above us has left."""
    dropped = ("MAKE", "MFLAGS", "VIRTUAL_ENV", "PYTHONPATH", "OPENBELL_")
    return {name: value for name, value in os.environ.items() if not name.startswith(dropped)}


@dataclass
class RunningDev:
    """`dev` in a folder, as seen from outside."""

    process: subprocess.Popen[bytes]
    folder: Path
    environment: dict[str, str]
    seconds_to_ready: float

    def members(self) -> list[ProcessStamp]:
        """Every process of it, itself first."""
        own = ProcessStamp.of(self.process.pid)
        assert own is not None
        return [own, *own.descendants()]

    def ports(self) -> set[int]:
        """Ports it listens on."""
        sockets = set()
        for member in self.members():
            for descriptor in Path(f"/proc/{member.pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    sockets.add(str(descriptor.readlink()))
        tables = [Path(f"/proc/net/{table}").read_text() for table in ("tcp", "tcp6")]
        rows = [line.split() for table in tables for line in table.splitlines()[1:]]
        return {
            int(row[1].split(":")[1], 16) for row in rows if row[3] == _LISTENING and f"socket:[{row[9]}]" in sockets
        }

    def memory_megabytes(self) -> float:
        """Memory of all its processes, shared pages counted once."""
        total = 0
        for member in self.members():
            text = Path(f"/proc/{member.pid}/smaps_rollup").read_text()
            total += int(text.split("\nPss:")[1].split()[0])
        return total / 1024

    def cpu_seconds(self) -> float:
        """Processor time of all its processes so far."""
        ticks = 0
        for member in self.members():
            fields = Path(f"/proc/{member.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def interrupt(self) -> int:
        """Ctrl-C, which a terminal sends to everyone in the foreground; the exit status."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(STOP_SECONDS)


def left_after_interrupt(dev: RunningDev) -> tuple[int, int]:
    """Press Ctrl-C; how many processes and how many ports are left."""
    members, ports = dev.members(), dev.ports()
    assert len(members) >= 7
    assert len(ports) >= 5
    dev.interrupt()
    wait_until(lambda: not any(member.is_running for member in members), STOP_SECONDS)
    return sum(member.is_running for member in members), sum(_is_open(port) for port in ports)


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def running_dev(folder: Path, command: list[str]) -> Iterator[RunningDev]:
    """Start `dev` and wait until it has written its environment file."""
    begun = time.monotonic()
    output = folder / "dev.out"
    with output.open("wb") as sink:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            env=plain_environment(),
            start_new_session=True,
        )
    try:
        ready = wait_until(lambda: b"is ready" in output.read_bytes() or process.poll() is not None, START_SECONDS)
        assert ready, "dev did not start in time"
        assert process.poll() is None, output.read_text()
        lines = (folder / ".openbell/dev.env").read_text().splitlines()
        environment = dict(line.removeprefix("export ").split("=", 1) for line in lines)
        yield RunningDev(process, folder, environment, time.monotonic() - begun)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(STOP_SECONDS)
