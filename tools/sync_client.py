"""Generates openbell.client from openbell.async_client: the same code without async and await."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "sdk/src/openbell/async_client"
TARGET = ROOT / "sdk/src/openbell/client"
HEADER = "# Generated from openbell/async_client/{} by make generate. Do not edit.\n"
# Applied in this order. What a prefix cannot express is in two hand-written functions, such as opened and async_opened.
RULES = [
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\basync_(?=[a-z])", ""),
    (r"\b__a(enter|exit)__", r"__\1__"),
    (r"\ba(close|closing|read|iter_lines)\b", r"\1"),
    (r"\bfrom asyncio import sleep\b", "from time import sleep"),
    (r"\bthe tasks of one event loop\b", "threads"),
]


def sync_modules() -> dict[str, str]:
    """The generated text of each module, by file name."""
    return {path.name: _sync(path) for path in sorted(SOURCE.glob("*.py"))}


def write_sync_client() -> None:
    modules = sync_modules()
    for stale in TARGET.glob("*.py"):
        if stale.name not in modules:
            stale.unlink()
    TARGET.mkdir(exist_ok=True)
    for name, text in modules.items():
        (TARGET / name).write_text(text)


def _sync(path: Path) -> str:
    text = path.read_text()
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text)
    text = HEADER.format(path.name) + text
    for arguments in (["check", "--select", "I,UP028", "--fix", "--unsafe-fixes", "--exit-zero"], ["format"]):
        text = _ruff(*arguments, "--quiet", "--stdin-filename", str(TARGET / path.name), "-", text=text)
    return text


def _ruff(*arguments: str, text: str) -> str:
    command = [Path(sys.executable).parent / "ruff", *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT, timeout=60).stdout


if __name__ == "__main__":
    write_sync_client()
