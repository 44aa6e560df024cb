"""Shows that the check of the proto bites: what a client would notice is caught, in a copy, without a network."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROTO = Path(__file__).parents[3] / "proto"
TRADING = (PROTO / "trading.proto").read_text()
# what a client would notice → (what stood there, what stands there now)
BREAKS = {
    "a field removed": ("  string account_id = 1;\n  // 1, 2", "  // 1, 2"),
    "a field renumbered": ("string intent_id = 1;", "string intent_id = 77;"),
    "a field renamed": ("string client_order_id = 3;", "string order_id = 3;"),
    "a field of another type": ("int64 account_seq = 2;", "string account_seq = 2;"),
    "an enum value removed": ("  EVENT_TYPE_INTENT_ACTION = 2;\n", ""),
    "a message removed": ("message Unknown {", "message Doubt {"),
    "a method renamed": ("rpc SubscribeEvents(", "rpc FollowEvents("),
    "a method that no longer streams": (
        "(Subscribe) returns (stream TradingEvent)",
        "(Subscribe) returns (TradingEvent)",
    ),
}


def buf(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """With an empty cache and no way out."""
    nowhere = "http://127.0.0.1:9"
    return subprocess.run(
        [Path(sys.executable).with_name("buf"), *arguments],
        cwd=folder,
        env={"BUF_CACHE_DIR": str(folder / "cache"), "HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(PROTO, tmp_path / "proto")
    return tmp_path


def test_the_proto_breaks_no_client_and_is_in_style_without_a_network(folder: Path) -> None:
    for arguments in (("lint", "proto"), ("breaking", "proto", "--against", "proto/released")):
        told = buf(folder, *arguments)
        assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.parametrize("how", BREAKS)
def test_a_change_that_a_client_would_notice_is_caught(folder: Path, how: str) -> None:
    before, after = BREAKS[how]
    changed = TRADING.replace(before, after, 1)
    assert changed != TRADING
    # What is left must still be a proto, or the compiler and not the comparison refuses it.
    changed = changed.replace("optional Unknown unknown", "optional Doubt unknown") if "Doubt" in changed else changed
    (folder / "proto/trading.proto").write_text(changed)
    assert buf(folder, "build", "proto").returncode == 0
    told = buf(folder, "breaking", "proto", "--against", "proto/released")
    assert told.returncode == 100, told.stdout + told.stderr
    assert "trading.proto" in told.stdout


def test_a_name_out_of_style_is_caught(folder: Path) -> None:
    (folder / "proto/trading.proto").write_text(TRADING + "message lower {}\n")
    told = buf(folder, "lint", "proto")
    assert (told.returncode, "PascalCase" in told.stdout) == (100, True), told.stdout + told.stderr
