"""Runs commands beside each other, and prints the output of each as a whole when the command ends."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import IO, Final

END_SECONDS: Final = 20
POLL_SECONDS: Final = 0.05
LAST_LINES: Final = 60


@dataclass(frozen=True, slots=True)
class Job:
    """One command."""

    name: str
    command: Sequence[str]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job ended; the CPU seconds include every process that it started and waited for."""

    name: str
    status: int
    seconds: float
    cpu_seconds: float
    # Printed again at the end if the job failed: a runner may keep only the end of a long output.
    last_lines: Sequence[str] = ()


class _Running:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the job has ended
        self._begun = time.monotonic()
        # A group of its own, so that all of it can be ended at once.
        self._process = subprocess.Popen(
            job.command, stdout=self.output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, process_group=0
        )

    def ended(self) -> Ended | None:
        pid, status, used = os.wait4(self._process.pid, os.WNOHANG)
        if not pid:
            return None
        self._process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - self._begun
        last_lines = self.read_output().splitlines()[-LAST_LINES:]
        return Ended(self.job.name, self._process.returncode, seconds, used.ru_utime + used.ru_stime, last_lines)

    def end(self) -> None:
        self.output.close()
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def read_output(self) -> str:
        self.output.seek(0)
        return self.output.read().decode(errors="replace")


def run_jobs(jobs: Iterable[Job], at_once: int, *, goes_on: bool = False) -> list[Ended]:
    """Run the jobs in this order; the first that fails ends the others, unless the caller wants to go on."""
    waiting, running, ended = list(jobs), list[_Running](), list[Ended]()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(_Running(waiting.pop(0)))
            for each in list(running):
                if end := each.ended():
                    running.remove(each)
                    ended.append(end)
                    print(f"== {end.name}", flush=True)
                    print(each.read_output(), end="", flush=True)
                    each.output.close()
                    print(f"== {end.name}: {summary(end)}", flush=True)
                    if end.status and not goes_on:
                        return ended
            time.sleep(POLL_SECONDS)
    finally:
        for each in running:
            print(f"== {each.job.name}: interrupted", flush=True)
            each.end()
    return ended


def summary(end: Ended) -> str:
    """The seconds, and whether the job failed."""
    took = f"{end.seconds:.0f} s, CPU {end.cpu_seconds:.0f} s"
    return f"{took}, FAILED with status {end.status}" if end.status else took


def print_table(ended: Sequence[Ended]) -> None:
    """The seconds of every job, the slowest first."""
    for end in sorted(ended, key=lambda each: each.seconds, reverse=True):
        print(f"{end.name:<20} {summary(end)}", flush=True)
