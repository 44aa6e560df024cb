"""The meter of the part `cost`: CPU of threads and processes that have ended, names of statements, its own report."""

import json
import subprocess
import sys
from dataclasses import asdict

from proof.cost_cpu import ENDED, METER, CpuMeter, Snapshot, seconds_between
from proof.cost_platform import Counted, Idle, Run
from proof.cost_report import Report, table
from proof.cost_statements import Statement, merged, name_of

ENDED_THREAD = """
import threading, time
thread = threading.Thread(target=lambda: sum(range(3_000_000)))
thread.start()
thread.join()
print(time.process_time_ns(), flush=True)
input()
"""


def a_run(**changes: object) -> Run:
    figures: dict[str, object] = {
        "accounts": 20,
        **dict.fromkeys(("intents", "accepted", "filled", "executions", "broker_orders"), 10),
        **dict.fromkeys(("seconds", "fills_per_second", "p50_millis", "p99_millis"), 1.5),
        "cpu_millis": {"executor": 2.0, "postgres: for executor": 1.0},
        "load_millis": 0.5,
        **dict.fromkeys(("wal_bytes", "writing_transactions", "nats_in", "nats_out"), 1.0),
        "long_way": None,
        "unfilled": [],
    }
    return Run(**{**figures, **changes})  # type: ignore[arg-type]


def test_cpu_of_a_thread_that_has_ended_is_counted() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ENDED_THREAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        own = int(process.stdout.readline())
        # It stands for a PostgreSQL without children.
        _, used = CpuMeter({}, process.pid).read().used[process.pid]
        assert used >= own
        process.stdin.write("\n")


def test_a_backend_that_has_ended_counts_from_the_first_reading_on() -> None:
    first = Snapshot(0.0, {1: ("api", 100), 2: ("postgres: for api", 400_000_000), 3: (METER, 5)}, 0)
    last = Snapshot(1.0, {1: ("api", 300), 3: (METER, 9_000), 4: ("postgres: for api", 70)}, 900_000_000)
    assert seconds_between(first, last) == {"api": 200 / 1e9, "postgres: for api": 70 / 1e9, ENDED: 0.5}


def test_a_statement_has_the_name_of_its_file_and_an_unknown_one_its_beginning() -> None:
    assert name_of("select\n   1  as one") == "select 1 as one"
    twice = [Statement("openbell", "a", 1.0, 2.0), Statement("openbell", "b", 1.0, 9.0)] * 2
    assert merged(twice) == [Statement("openbell", "b", 2.0, 18.0), Statement("openbell", "a", 2.0, 4.0)]


def test_a_report_is_the_same_after_it_was_told_to_another_process() -> None:
    idle = Idle(1.0, {"executor": 20.0}, 0.0, 0.0, 0.0, 0.0)
    counted = Counted({"openbell": 26.0}, {"openbell": 2.5}, [Statement("openbell", "a", 1.0, 2.0)], a_run())
    report = Report("CPython", "tree", idle, a_run(), None, counted)
    assert Report.from_json(json.loads(json.dumps(asdict(report)))) == report
    assert any(line.split() == ["all", "3.500"] for line in table(report))


def test_a_run_is_exact_only_if_both_ledgers_have_each_intent_once() -> None:
    assert a_run().is_exact
    for ledger in ("accepted", "filled", "executions", "broker_orders"):
        assert not a_run(**{ledger: 11}).is_exact
