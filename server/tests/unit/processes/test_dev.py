"""What `dev` does about its ports and its kept folder, without starting a platform."""

import json
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from openbell_server.devtools import dev, kept_folder
from openbell_server.devtools.child_processes import ChildFailed, free_port, reserve_port
from openbell_server.devtools.dev_issuer import DevIssuer
from openbell_server.devtools.kept_folder import KeptFolder


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder that also the user can enter who runs PostgreSQL for root."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ChildFailed, match=f"Port {port} of 127.0.0.1 is taken: .* --port"):
            dev.run_dev(tmp_path / "dev", port=port)
    assert not (tmp_path / "dev").exists()


def test_a_preferred_port_is_given_to_one_of_two_who_want_it() -> None:
    wanted = free_port()
    # Reserved, though nobody listens there yet.
    assert not reserve_port(wanted)
    assert dev.preferred_port(wanted) != wanted


class FakePlatform:
    """Loses the race for a port as often as told."""

    lost: list[str]
    ports: list[str]

    def __init__(self, _: Path, settings: dict[str, str], **__: object) -> None:
        self.port = settings["OPENBELL_API_PORT"]

    def start(self) -> None:
        self.ports.append(self.port)
        if self.lost:
            raise ChildFailed(self.lost.pop().format(port=self.port))


LOST = "api ended (2):\nCannot listen on 127.0.0.1:{port} (Address already in use): choose another port."


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakePlatform]:
    FakePlatform.lost, FakePlatform.ports = [], []
    monkeypatch.setattr(dev, "LocalPlatform", FakePlatform)
    return FakePlatform


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[DevIssuer]:
    with DevIssuer(tmp_path, "workos") as started:
        yield started


def test_a_lost_race_for_a_port_is_run_again_with_other_ports(
    fake: type[FakePlatform], issuer: DevIssuer, tmp_path: Path
) -> None:
    fake.lost = [LOST, "NATS did not start:\nlisten tcp 127.0.0.1:1: bind: address already in use"]
    dev._start(tmp_path, issuer, None, None)
    assert len(set(fake.ports)) == 3


def test_after_three_lost_races_and_after_other_failures_dev_gives_up(
    fake: type[FakePlatform], issuer: DevIssuer, tmp_path: Path
) -> None:
    fake.lost = [LOST] * dev.PORT_TRIES
    with pytest.raises(ChildFailed, match="Address already in use"):
        dev._start(tmp_path, issuer, None, None)
    fake.lost = ["relay ended (1):\nit is broken"]
    with pytest.raises(ChildFailed, match="it is broken"):
        dev._start(tmp_path, issuer, None, None)


def test_a_lost_race_for_the_port_of_the_option_names_it(
    fake: type[FakePlatform], issuer: DevIssuer, tmp_path: Path
) -> None:
    fake.lost = [LOST]
    with pytest.raises(ChildFailed, match=r"Port 8123 of 127\.0\.0\.1 is taken"):
        dev._start(tmp_path, issuer, 8123, None)


def test_a_kept_folder_is_private_and_remembers_secrets_once_it_was_ready(outside: Path) -> None:
    path = outside / "a" / "kept"
    with KeptFolder(path) as first:
        assert first.seeded is None
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert stat.S_IMODE((path / "dev.json").stat().st_mode) == 0o600
        (path / "postgres").mkdir()
    with KeptFolder(path) as second:
        # The first start never became ready: the second begins anew.
        assert not (path / "postgres").exists()
        assert second.settings != first.settings
        (path / "postgres").mkdir()
        second.save(["key", "ids"])
    with KeptFolder(path) as third:
        assert (third.seeded, third.settings) == (["key", "ids"], second.settings)
        assert (path / "postgres").exists()
        with pytest.raises(ChildFailed, match=f"Another dev uses {path}"), KeptFolder(path):
            pass


def test_a_folder_with_files_of_others_is_not_used(outside: Path) -> None:
    (outside / "thesis.txt").write_text("years of work")
    with pytest.raises(ChildFailed, match="files that dev did not make"), KeptFolder(outside):
        pass
    assert [file.name for file in outside.iterdir()] == ["thesis.txt"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts PostgreSQL as another user")
def test_a_folder_that_postgres_cannot_enter_is_named(outside: Path) -> None:
    outside.chmod(0o700)
    with pytest.raises(ChildFailed, match=r"cannot enter .*kept: choose a folder"), KeptFolder(outside / "kept"):
        pass


def test_a_schema_that_cannot_be_migrated_is_refused_with_what_to_do_and_left_alone(
    outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = outside / "kept"
    with KeptFolder(path) as made:
        made.save(["key"])
    before = (path / "dev.json").read_text()
    ours = kept_folder._schema()
    # A later revision is applied by the migration.
    monkeypatch.setattr(kept_folder, "_schema", lambda: ours | {"0003_more": "new"})
    with KeptFolder(path) as newer:
        assert newer.seeded == ["key"]
    for changed in (ours | {"0001_baseline": "changed in place"}, {"0001_baseline": ours["0001_baseline"]}):
        monkeypatch.setattr(kept_folder, "_schema", lambda changed=changed: changed)
        with pytest.raises(ChildFailed, match=f"mv {path} {path}.old"), KeptFolder(path):
            pass
    assert (path / "dev.json").read_text() == before
    assert json.loads(before)["schema"] == ours
