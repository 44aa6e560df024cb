"""Builds the pages of the console from the sources of a checkout, and notices a build of other sources.

Beside the built files is a list of the sources with their hashes, in the format of sha256sum.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from openbell_server import transport
from openbell_server.devtools.child_processes import ChildFailed

CHECKOUT: Final = Path(__file__).parents[4]
BUILT: Final = Path(transport.__path__[0], "console/static")
SOURCES: Final = "sources.sha256"
INSTALL_SECONDS: Final = 600
BUILD_SECONDS: Final = 300
_FOLDERS: Final = ("console", "clients/typescript/src")
# What is generated, what only tests read, and text.
_SKIPPED: Final = frozenset({"node_modules", "dist", "test", "proof", "schema.ts", "README.md"})
_OUTPUT_LINES: Final = 20


def has_sources(checkout: Path = CHECKOUT) -> bool:
    return (checkout / "console/package.json").is_file()


def is_current(checkout: Path = CHECKOUT, built: Path = BUILT) -> bool:
    """Whether the built files are of exactly these sources."""
    try:
        return (built / SOURCES).read_text() == _hashes(checkout)
    except FileNotFoundError:
        return False


def has_node() -> bool:
    return _npm() is not None


def build_if_stale(checkout: Path = CHECKOUT, built: Path = BUILT) -> bool:
    """Whether it built the pages: not if they are current, or another process has built them meanwhile."""
    with (checkout / "console/package.json").open() as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        if is_current(checkout, built):
            return False
        build(checkout, built)
        return True


def build(checkout: Path = CHECKOUT, built: Path = BUILT) -> None:
    """Install the locked packages and build the pages. Raises ChildFailed with the end of the output."""
    npm = _npm()
    if npm is None:
        raise ChildFailed("There is no npm beside this Python: run `make setup`, which installs it, and try again.")
    # What is read while the build runs belongs to it: a later change makes it stale.
    hashes = _hashes(checkout)
    folder = checkout / "console"
    lock, installed = folder / "package-lock.json", folder / "node_modules/.package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        _run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], folder, INSTALL_SECONDS)
        installed.touch()
    _run([npm, "run", "--silent", "build"], folder, BUILD_SECONDS)
    if not (built / "index.html").is_file():
        raise ChildFailed(f"The build of the console made no {built / 'index.html'}.")
    (built / SOURCES).write_text(hashes)


def _npm() -> str | None:
    beside = Path(sys.executable).with_name("npm")
    return str(beside) if beside.exists() else None


def _run(command: list[str], folder: Path, seconds: float) -> None:
    # npm starts the node of the path.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ChildFailed(f"`{' '.join(command[1:])}` in {folder} did not end within {seconds} s.") from None
    if done.returncode != 0:
        end = "\n".join(done.stdout.splitlines()[-_OUTPUT_LINES:])
        raise ChildFailed(f"`{' '.join(command[1:])}` in {folder} failed:\n{end}")


def _hashes(checkout: Path) -> str:
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(checkout)}"
        for folder in _FOLDERS
        for path in sorted(_sources(checkout / folder))
    ]
    return "".join(f"{line}\n" for line in lines)


def _sources(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.name in _SKIPPED or entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _sources(entry)
        else:
            yield entry


def main() -> None:
    """Build the pages unless they are current; for `make console`."""
    if not has_sources():
        sys.exit("There are no sources of the console here.")
    try:
        is_new = build_if_stale()
    except ChildFailed as failure:
        sys.exit(str(failure))
    where = BUILT.relative_to(CHECKOUT)
    print(f"The console is built: {where}" if is_new else "The console is built from these sources already.")


if __name__ == "__main__":
    main()
