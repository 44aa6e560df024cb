"""The operator's file of agents."""

import json
from pathlib import Path

import pytest

from openbell_mcp.bindings import Binding, Bindings
from openbell_mcp.tokens import Unavailable


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    path.touch(mode=mode)
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    written(tmp_path / "ann.key", "secret\n")
    return written(tmp_path / "agents.json", json.dumps({"ann": {"account": "a", "key_file": "ann.key"}}))


def test_a_subject_has_the_key_in_the_file_beside_the_bindings(agents: Path) -> None:
    bindings = Bindings(agents)
    bindings.check()
    assert bindings.of("ann") == Binding("a", "secret")
    assert bindings.of("bob") is None
    assert "secret" not in repr(bindings.of("ann"))


@pytest.mark.parametrize("name", ["agents.json", "ann.key"])
def test_a_file_that_others_may_read_is_refused(agents: Path, name: str) -> None:
    (agents.parent / name).chmod(0o640)
    with pytest.raises(ValueError, match="chmod 600"):
        Bindings(agents).check()
    with pytest.raises(Unavailable):
        Bindings(agents).of("ann")


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"": {"account": "a", "key_file": "ann.key"}}', '{"ann": {"account": "a"}}', '{"ann": {"key": "x"}}'],
)
def test_a_file_that_is_not_a_list_of_agents_is_refused(agents: Path, text: str) -> None:
    agents.write_text(text)
    with pytest.raises(ValueError, match=r"\S"):
        Bindings(agents).check()


def test_a_key_file_that_is_empty_or_absent_is_refused(agents: Path) -> None:
    key = agents.parent / "ann.key"
    key.write_text("\n")
    with pytest.raises(ValueError, match="empty"):
        Bindings(agents).check()
    key.unlink()
    with pytest.raises(OSError, match=r"ann\.key"):
        Bindings(agents).check()
