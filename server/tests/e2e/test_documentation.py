"""What the pages have a reader do, done: every `bash` and `python` block, beside one `dev`, as a reader would.

README's own blocks run in a fresh clone, in test_front_door.py.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from doc_blocks import EXECUTED, blocks, pages, program
from front_door import ROOT, RunningDev, plain_environment, run, running_dev
from openbell_server.processes.local_platform import ACME
from openbell_server.processes.local_postgres import find_postgres

SERVER = [sys.executable, "-m", "openbell_server"]
PAGE_SECONDS = 60
PAGES = [
    page for page in pages() if page != "README.md" and EXECUTED.intersection(block.tag for block in blocks(page))
]


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDev]:
    with running_dev(tmp_path_factory.mktemp("dev"), [*SERVER, "dev"]) as running:
        yield running


@pytest.fixture(scope="module")
def token(dev: RunningDev) -> str:
    """An admin's, made as the greeting of `dev` says."""
    words = ["tokens", "mint", "--user", "you", "--organization", ACME, "--role", "admin"]
    return run([*SERVER, *words], dev.folder, 30).strip()


@pytest.fixture
def account_id(dev: RunningDev) -> str:
    """An account that no other page has traded on."""
    opened = httpx.post(
        f"{dev.environment['OPENBELL_URL']}/v1/accounts",
        json={"name": "Of a page", "broker": "paper", "environment": "paper"},
        headers={"x-api-key": dev.environment["OPENBELL_API_KEY"]},
        timeout=20,
    )
    return str(opened.raise_for_status().json()["id"])


@pytest.fixture
def checkout(dev: RunningDev, tmp_path: Path) -> Path:
    """What a reader's shell stands in: this checkout, and what `dev` wrote; files that a page makes are its own."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for entry in ROOT.iterdir():
        if entry.name not in {".git", ".openbell", "build"}:
            (folder / entry.name).symlink_to(entry)
    (folder / ".openbell").symlink_to(dev.folder / ".openbell")
    return folder


@pytest.mark.timeout(PAGE_SECONDS + 30)
@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_has_its_reader_do_works(
    page: str, dev: RunningDev, token: str, account_id: str, checkout: Path
) -> None:
    script = checkout.with_name("page.bash")
    script.write_text(program(page, blocks(page)))
    path = [str(ROOT / ".venv/bin"), str(find_postgres()), os.environ["PATH"]]
    reader = {"PATH": os.pathsep.join(path), "HOME": str(checkout.parent), "TOKEN": token}
    process = subprocess.Popen(
        ["bash", script],
        cwd=checkout,
        env=plain_environment() | dev.environment | {"OPENBELL_ACCOUNT": account_id} | reader,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        told, _ = process.communicate(timeout=PAGE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        told, _ = process.communicate()
        pytest.fail(f"{page} takes longer than {PAGE_SECONDS} s\n{told[-3000:]}")
    assert process.returncode == 0, told[-3000:]
