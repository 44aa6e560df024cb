"""The committed sync client is the one that make generate writes."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_sync_client_is_generated_from_the_async_one() -> None:
    modules = runpy.run_path(str(ROOT / "tools/sync_client.py"))["sync_modules"]()
    committed = {path.name: path.read_text() for path in (ROOT / "sdk/src/openbell/client").glob("*.py")}
    assert committed == modules, "run make generate"
    assert all(text.startswith("# Generated from openbell/async_client/") for text in modules.values())
    assert not [
        name for name, text in modules.items() if "async" in text.split("\n", 1)[1].replace("the async client", "")
    ]
