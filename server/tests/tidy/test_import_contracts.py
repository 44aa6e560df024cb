"""Shows that every import contract bites: one deliberate violation each, in a copy of the tree, must be caught."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

# contract → (file to add a line to, the line)
VIOLATIONS = {
    "One arrow": (
        "server/src/openbell_server/application/__init__.py",
        "import openbell_server.adapters.postgres",
    ),
    "The inside is plain Python": ("server/src/openbell_server/domain/__init__.py", "import msgspec"),
    "Brokers do not know each other": (
        "server/src/openbell_server/brokers/other/__init__.py",
        "import openbell_server.brokers.paper",
    ),
    "Adapters do not know each other": (
        "server/src/openbell_server/adapters/jetstream/__init__.py",
        "import openbell_server.adapters.postgres",
    ),
    "Transports do not know each other": (
        "server/src/openbell_server/transport/stream/__init__.py",
        "import openbell_server.transport.rest",
    ),
    "No cycles inside a layer": (
        "server/src/openbell_server/domain/errors.py",
        "import openbell_server.domain.orders.intents",
    ),
    "Application features import in one direction": (
        "server/src/openbell_server/application/access/authenticate.py",
        "import openbell_server.application.intents.submit_intent",
    ),
    "Domain features import in one direction": (
        "server/src/openbell_server/domain/orders/intents.py",
        "import openbell_server.domain.events.outbox",
    ),
    "PostgreSQL features import in one direction": (
        "server/src/openbell_server/adapters/postgres/access/accounts.py",
        "import openbell_server.adapters.postgres.operators.operators",
    ),
    "REST features import in one direction": (
        "server/src/openbell_server/transport/rest/intents/routes.py",
        "import openbell_server.transport.rest.events.webhooks",
    ),
    "Workers carry no transport": (
        "server/src/openbell_server/processes/relay.py",
        "import openbell_server.transport.rest",
    ),
    "The client never imports the server": ("sdk/src/openbell/__init__.py", "import openbell_server"),
    "Only the server for agents uses the SDK of its protocol": ("sdk/src/openbell/cli/agents/install.py", "import mcp"),
    "The server for agents calls the platform as a client": (
        "mcp/src/openbell_mcp/orders.py",
        "import openbell_server",
    ),
    "The server for agents imports in one direction": (
        "mcp/src/openbell_mcp/marking.py",
        "import openbell_mcp.catalogue",
    ),
    "Client features import in one direction": (
        "sdk/src/openbell/events/records.py",
        "import openbell.intents.order_lists",
    ),
    "The exchange imports nothing of ours": (
        "torture/src/openbell_exchange/terms.py",
        "import openbell_server.domain.errors",
    ),
    "The server runs on the exchange, and never on the simulator of a broker": (
        "server/src/openbell_server/brokers/paper/__init__.py",
        "import openbell_torture.alpaca",
    ),
    "The simulator never imports the platform": ("torture/src/openbell_torture/run.py", "import openbell"),
    "The exchange imports in one direction": (
        "torture/src/openbell_exchange/matching.py",
        "import openbell_exchange.standings",
    ),
    "The simulator imports in one direction": (
        "torture/src/openbell_torture/journal.py",
        "import openbell_torture.compare",
    ),
}


def contracts() -> list[str]:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    return [contract["name"] for contract in rules["contracts"]]


def lint(tree: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=tree,
        env={"PYTHONPATH": f"{tree}/sdk/src:{tree}/server/src:{tree}/torture/src:{tree}/mcp/src", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for part in ("sdk/src", "server/src", "torture/src", "mcp/src"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_every_contract_has_a_violation() -> None:
    assert sorted(VIOLATIONS) == sorted(contracts())


def test_the_untouched_tree_keeps_every_contract(tree: Path) -> None:
    result = lint(tree)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("contract", sorted(VIOLATIONS))
def test_a_violation_is_caught(tree: Path, contract: str) -> None:
    name, line = VIOLATIONS[contract]
    file = tree / name
    file.parent.mkdir(exist_ok=True)
    with file.open("a") as stream:
        stream.write(f"\n{line}\n")
    result = lint(tree)
    assert result.returncode != 0
    assert f"{contract} BROKEN" in result.stdout


def test_a_folder_that_nobody_placed_is_caught(tree: Path) -> None:
    (tree / "server/src/openbell_server/attic").mkdir()
    (tree / "server/src/openbell_server/attic/__init__.py").write_text('"""Unplaced."""\n')
    assert "One arrow BROKEN" in lint(tree).stdout
