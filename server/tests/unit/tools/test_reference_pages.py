"""The references are made of the interfaces themselves, and say all that is in them; drawings are as they are made."""

import json
import re
import runpy
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from openbell.cli import app as client_commands
from openbell_server.adapters.postgres import migrations
from openbell_server.cli import app as server_commands

ROOT = Path(__file__).parents[4]
DOCS = ROOT / "docs"
PROTO = (ROOT / "proto/trading.proto").read_text()


def page_of(tool: str) -> Callable[[Any], str]:
    """The function of a tool that makes its page; tools are no package."""
    made: Callable[[Any], str] = runpy.run_path(str(ROOT / f"tools/{tool}.py"))[f"{tool}_page"]
    return made


def test_the_committed_page_of_operations_is_made_of_the_openapi_document() -> None:
    document = json.loads((DOCS / "openapi.json").read_text())
    page = page_of("api_reference")(document)
    assert (DOCS / "api-reference.md").read_text() == page, "run make generate"
    operations = [each["operationId"] for methods in document["paths"].values() for each in methods.values()]
    assert [each for each in operations if f"\n### {each}\n" not in page] == []
    assert [each for each in document["components"]["schemas"] if f"\n#### {each} shape\n" not in page] == []


def test_the_committed_page_of_commands_is_made_of_both_programs() -> None:
    page = page_of("cli_reference")({"openbell": client_commands, "openbell-server": server_commands})
    assert (DOCS / "cli-reference.md").read_text() == page, "run make generate"
    assert "\n### openbell intents create\n" in page
    assert "\n### openbell-server outbox\n" in page
    assert "\n### openbell-server outbox requeue\n" in page


def test_the_committed_page_of_grpc_is_made_of_the_proto() -> None:
    page = page_of("grpc_reference")(PROTO)
    assert (DOCS / "grpc-reference.md").read_text() == page, "run make generate"
    assert "- `resume_token` = 3, `string`. The token of the last frame that was received;" in page


def test_a_line_of_the_proto_that_is_not_understood_fails() -> None:
    with pytest.raises(ValueError, match="extensions 4 to 6"):
        page_of("grpc_reference")(PROTO.replace("  string trading_account_id = 1;", "  extensions 4 to 6;", 1))


def test_the_committed_page_of_the_schema_is_made_of_the_migrations() -> None:
    files = {str(path.relative_to(migrations.FOLDER)): path.read_text() for path in migrations.FILES}
    page = page_of("schema")(files)
    assert (DOCS / "schema.md").read_text() == page, "run make generate"
    tables = re.findall(r"^create table (\w+)", "\n".join(files.values()), re.MULTILINE)
    assert len(tables) > 40
    assert [name for name in tables if f"\n| `{name}` | " not in page] == []


def test_a_table_that_has_no_comment_fails() -> None:
    with pytest.raises(ValueError, match="table notes has no `comment on table`"):
        page_of("schema")({"notes.sql": "-- Notes: texts.\n\ncreate table notes (\n    note text primary key\n);\n"})


def test_the_committed_drawings_are_the_made_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    made = import_module("drawings").DRAWINGS | import_module("lifecycle_drawings").LIFECYCLES
    stale = [name for name, draw in made.items() if (DOCS / f"images/{name}.svg").read_text() != draw()]
    assert stale == [], "run make generate"
