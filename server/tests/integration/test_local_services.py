"""PostgreSQL, NATS and Redis as children: they keep their data through kills and leave nothing behind."""

import json
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import asyncpg
import httpx
import nats
import pytest

from openbell_server.devtools import local_nats, local_postgres
from openbell_server.devtools.child_processes import Child, ChildFailed, ProcessStamp, free_port, wait_until
from openbell_server.devtools.local_postgres import server_user
from openbell_server.devtools.local_services import LocalServices

OWNER = """
import time
from openbell_server.devtools.local_services import LocalServices
with LocalServices():
    print("up", flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def own() -> Iterator[LocalServices]:
    """Services that a test may kill: the session's are shared with other modules."""
    with LocalServices() as running:
        yield running


def stamp(pid: int | None) -> ProcessStamp:
    found = ProcessStamp.of(pid or 0)
    assert found
    return found


def owned_processes(running: LocalServices) -> list[ProcessStamp]:
    pids = [running.postgres.pid, running.nats.pid, *([running.redis.pid] if running.redis else [])]
    servers = [stamp(pid) for pid in pids]
    return servers + [process for server in servers for process in server.descendants()]


def all_ended(processes: list[ProcessStamp], seconds: float = 60) -> bool:
    return wait_until(lambda: not any(process.is_running for process in processes), seconds)


def folder_of(processes: list[ProcessStamp]) -> Path:
    """Where the servers among these processes keep their files."""
    words = [word for process in processes for word in Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")]
    return next(Path(word).parent for word in words if word.endswith("/nats.conf"))


def make_old(folder: Path) -> None:
    an_hour_ago = time.time() - 3600
    os.utime(folder, (an_hour_ago, an_hour_ago))


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def postgres_answers(running: LocalServices, question: str) -> object:
    connection = await asyncpg.connect(running.postgres.url(), timeout=60)
    try:
        return await connection.fetchval(question, timeout=60)
    finally:
        await connection.close(timeout=60)


async def publish(running: LocalServices, subject: str) -> int:
    client = await nats.connect(running.nats.url, connect_timeout=60)
    try:
        stream = client.jetstream()
        await stream.add_stream(name="kept", subjects=["kept.>"])
        return (await stream.publish(subject, b"x", timeout=60)).seq
    finally:
        await client.close()


async def test_postgres_is_durable_and_listens_on_no_network(own: LocalServices) -> None:
    settings = ("fsync", "synchronous_commit", "data_checksums", "listen_addresses")
    found = [await postgres_answers(own, f"select current_setting('{name}')") for name in settings]
    assert found == ["on", "on", "on", ""]
    assert not listens(own.postgres.port)


async def test_only_the_user_who_started_postgres_can_reach_its_socket(own: LocalServices) -> None:
    folder = own.postgres.socket_folder
    (listener,) = folder.glob(".s.PGSQL.*[0-9]")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, listener)] == [0o700, 0o700]
    # If somebody opens a port nevertheless, nobody is let in there.
    rules = await postgres_answers(own, "select array_agg(auth_method) from pg_hba_file_rules where type <> 'local'")
    assert set(cast("list[str]", rules)) == {"reject"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_another_user_of_the_machine_cannot_connect_to_postgres(own: LocalServices) -> None:
    stranger = pwd.getpwnam("nobody")
    assert server_user() != stranger, "PostgreSQL runs as the stranger"
    listener = own.postgres.socket_folder / f".s.PGSQL.{own.postgres.port}"
    program = f"import socket; socket.socket(socket.AF_UNIX).connect({str(listener)!r})"
    # One that everybody may run.
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    tried = subprocess.run(
        [python, "-c", program],
        user=stranger.pw_uid,
        group=stranger.pw_gid,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "PermissionError" in tried.stderr


async def test_nats_refuses_a_client_without_its_password(own: LocalServices) -> None:
    with socket.create_connection(("127.0.0.1", own.nats.port), timeout=60) as client:
        client.sendall(b"CONNECT {}\r\nPING\r\n")
        answers = client.makefile("rb").read()
    assert b"Authorization Violation" in answers
    assert b"PONG" not in answers
    monitor = own.nats.monitor_url.rpartition("/")[0]
    async with httpx.AsyncClient(timeout=60) as stranger:
        assert (await stranger.get(f"{monitor}/varz")).status_code == 404


def test_no_password_is_among_the_arguments_of_a_process_or_in_a_file_that_others_can_read() -> None:
    with LocalServices(with_redis=True) as running:
        assert running.redis
        passwords = [running.nats.password, running.redis.password]
        shown = [Path(f"/proc/{each.pid}/cmdline").read_text() for each in owned_processes(running)]
        assert not [text for text in shown if any(password in text for password in passwords)]
        with socket.create_connection(("127.0.0.1", running.redis.port), timeout=60) as stranger:
            stranger.sendall(b"INFO server\r\n")
            assert stranger.recv(100).startswith(b"-NOAUTH")
        for name in ("nats.conf", "redis.conf"):
            assert stat.S_IMODE((running.folder / name).stat().st_mode) == 0o600


async def test_postgres_keeps_what_it_committed_when_killed_under_a_busy_connection(own: LocalServices) -> None:
    await postgres_answers(own, "create table kept as select 7 as number")
    busy = await asyncpg.connect(own.postgres.url(), timeout=60)
    server = stamp(own.postgres.pid)
    processes = [server, *server.descendants()]
    port = own.postgres.port
    own.postgres.kill()
    assert not own.postgres.is_running
    assert all_ended(processes, 0)
    busy.terminate()
    own.postgres.start()
    assert own.postgres.port == port
    assert await postgres_answers(own, "select number from kept") == 7


async def test_postgres_starts_again_after_a_clean_stop(own: LocalServices) -> None:
    own.postgres.stop()
    assert not own.postgres.is_running
    own.postgres.start()
    assert await postgres_answers(own, "select 1") == 1


async def test_nats_keeps_its_store_when_killed_until_it_is_wiped(own: LocalServices) -> None:
    assert await publish(own, "kept.a") == 1
    own.nats.kill()
    own.nats.start()
    assert await publish(own, "kept.a") == 2
    with pytest.raises(RuntimeError):
        own.nats.wipe()
    own.nats.stop()
    own.nats.wipe()
    own.nats.start()
    assert await publish(own, "kept.a") == 1


def test_nats_syncs_every_message(own: LocalServices, tmp_path: Path) -> None:
    own.nats.stop()
    port = free_port()
    # The server under its own configuration, with its monitor as well.
    monitored = Child([local_nats.find_nats(), "-c", own.nats._config, "-m", str(port)], log=tmp_path / "log")
    try:
        assert wait_until(own.nats._is_ready, 60), monitored.log_tail()
        path = own.nats.monitor_url.rpartition("/")[2]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}/jsz?config=true", timeout=60) as answer:
            report = json.load(answer)
    finally:
        monitored.stop(10)
        own.nats.start()
    assert report["config"]["sync_always"] is True
    assert report["config"]["max_storage"] == 512_000_000


def test_stop_leaves_no_process_no_port_and_no_folder_beside_another_instance(own: LocalServices) -> None:
    second = LocalServices({"log_min_messages": "warning"}, with_redis=True)
    second.start()
    assert second.redis
    assert own.redis is None
    folder = second.postgres._folder
    processes = owned_processes(second)
    assert folder.is_dir()
    assert listens(second.redis.port)
    assert len({second.postgres.port, second.nats.port, own.postgres.port, own.nats.port}) == 4
    second.stop()
    assert all_ended(processes, 0)
    assert not listens(second.nats.port)
    assert not listens(second.redis.port)
    assert not folder.exists()
    assert own.postgres.is_running
    assert own.nats.is_running


def test_a_failed_start_shows_the_log_and_leaves_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(enterable(tmp_path)))
    with pytest.raises(ChildFailed, match="nonsense"):
        LocalServices({"nonsense": "1"}).start()
    assert list(tmp_path.glob("openbell-*")) == []


def test_a_killed_parent_leaves_no_process_and_its_folder_is_removed_by_the_next() -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    with owner:
        assert owner.stdout
        assert owner.stdout.readline() == "up\n"
        processes = stamp(owner.pid).descendants()
        folder = folder_of(processes)
        owner.kill()
    assert len(processes) > 2
    assert all_ended(processes)
    make_old(folder)
    with LocalServices():
        assert not folder.exists()


def program(folder: Path, name: str, version: str) -> Path:
    """Stands in for a server's program: it only says its version."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{version}'\n")
    path.chmod(0o755)
    return path


def test_an_old_nats_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = program(tmp_path / "old", "nats-server", "nats-server: v2.9.10")
    wheel = program(tmp_path / "wheel", "nats-server", "nats-server: v2.12.0")
    monkeypatch.setenv("PATH", str(old.parent), prepend=os.pathsep)
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(wheel.parent))
    monkeypatch.delenv("OPENBELL_NATS_BIN", raising=False)
    assert local_nats.find_nats() == wheel
    wheel.unlink()
    with pytest.raises(ChildFailed, match="pip install"):
        local_nats.find_nats()
    monkeypatch.setenv("OPENBELL_NATS_BIN", str(old))
    with pytest.raises(ChildFailed, match=r"2\.12"):
        local_nats.find_nats()


def test_an_old_postgres_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("postgres", "initdb"):
        program(tmp_path, name, f"{name} (PostgreSQL) 14.9")
    monkeypatch.setenv("OPENBELL_POSTGRES_BIN", str(tmp_path))
    with pytest.raises(ChildFailed, match="15 or newer"):
        local_postgres.find_postgres()


def enterable(folder: Path) -> Path:
    """Let another user through: pytest makes private folders."""
    for part in (folder, *folder.parents):
        if part.owner() == folder.owner() and part.stat().st_mode & 0o777 == 0o700:
            part.chmod(0o711)
    return folder


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts PostgreSQL as another user")
def test_the_wheel_in_a_private_folder_is_copied_to_where_the_server_can_read_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wheel = local_postgres._wheel_folder()
    assert wheel
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    for part in (wheel.name, f"{wheel.name}.libs"):
        shutil.copytree(wheel.parent / part, private / part)
    monkeypatch.setattr(local_postgres, "_wheel_folder", lambda: private / wheel.name)
    monkeypatch.setenv("OPENBELL_POSTGRES_BIN", str(private / wheel.name / "pginstall18" / "bin"))
    with LocalServices() as running:
        assert running.postgres.is_running


def test_a_child_that_ignores_the_request_to_end_is_killed_with_its_own_children(tmp_path: Path) -> None:
    child = Child(["sh", "-c", "trap '' TERM; sleep 60 & echo up; while :; do wait; done"], log=tmp_path / "log")
    assert wait_until(lambda: "up" in child.log_tail(), 60)
    processes = [stamp(child.pid), *stamp(child.pid).descendants()]
    assert len(processes) == 2
    assert child.stop(0.2) == -signal.SIGKILL
    assert all_ended(processes, 0)


def test_a_recycled_process_id_is_never_signalled(tmp_path: Path) -> None:
    child = Child(["sleep", "60"], log=tmp_path / "log")
    another = ProcessStamp(child.pid, stamp(child.pid).started - 1)
    another.kill()
    assert not another.is_running
    assert child.is_running
    child.stop(5)


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "openbell_server", "services", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_services_go_up_once_and_down_without_a_trace(tmp_path: Path) -> None:
    try:
        first = command(tmp_path, "up")
        assert first.returncode == 0, first.stderr
        kept = json.loads((tmp_path / ".openbell/services.json").read_text())
        assert command(tmp_path, "up").stdout == first.stdout == command(tmp_path, "status").stdout
        assert f"export OPENBELL_DATABASE_URL={kept['database_url']}\n" in command(tmp_path, "env").stdout
        keeper = stamp(kept["pid"])
        processes = [keeper, *keeper.descendants()]
        assert len(processes) > 3
    finally:
        down = command(tmp_path, "down")
    assert down.stdout == "The services have ended.\n"
    assert all_ended(processes, 0)
    assert list((tmp_path / ".openbell").iterdir()) == []
    assert command(tmp_path, "status").returncode == 1
    assert command(tmp_path, "down").stdout == "No services were running here.\n"


def test_services_whose_keeper_was_killed_are_started_anew_and_end_when_their_record_is_deleted(tmp_path: Path) -> None:
    record = tmp_path / ".openbell/services.json"
    try:
        assert command(tmp_path, "up").returncode == 0
        killed = stamp(json.loads(record.read_text())["pid"])
        processes = [killed, *killed.descendants()]
        folder = folder_of(processes)
        killed.kill()
        assert all_ended(processes)
        assert command(tmp_path, "status").returncode == 1
        make_old(folder)
        assert command(tmp_path, "up").returncode == 0
        assert not folder.exists()
        keeper = stamp(json.loads(record.read_text())["pid"])
        processes = [keeper, *keeper.descendants()]
        shutil.rmtree(record.parent)
        assert all_ended(processes, 20)
    finally:
        command(tmp_path, "down")


def test_services_that_cannot_start_say_why_in_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENBELL_NATS_BIN", str(tmp_path / "missing"))
    failed = command(tmp_path, "up")
    assert failed.returncode == 1
    assert failed.stderr.startswith("The services did not start:\nOPENBELL_NATS_BIN is ")
    assert not (tmp_path / ".openbell/services.json").exists()
