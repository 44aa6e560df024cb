"""Makes what is generated from the code: docs/openapi.json, pages that say all of a table or an interface, drawings."""

import json
from pathlib import Path
from typing import Any, cast

from api_reference import api_reference_page
from broker_register import register, register_page, rows_of
from brokers_page import brokers_page
from cli_reference import cli_reference_page
from drawings import DRAWINGS
from errors_page import errors_page
from grpc_reference import grpc_reference_page
from licences import licences_page, pinned
from lifecycle_drawings import LIFECYCLES
from litestar.testing import TestClient
from metrics_page import metrics_page
from order_lifecycle_page import order_lifecycle_page
from schema import schema_page
from sync_client import write_sync_client

from openbell.cli import app as client_commands
from openbell_server.adapters.postgres import migrations
from openbell_server.brokers.registry import BROKERS
from openbell_server.cli import app as server_commands
from openbell_server.processes.rest_wiring import RestDependencies, rest_app

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def main() -> None:
    """The document describes the routes only, so the application gets no services."""
    write_sync_client()
    none = cast("Any", None)
    app = rest_app(
        RestDependencies(
            pool=none, hints=none, cursor_key=b"", tokens=none, limit=none, provider_name="", fault_plans=none
        )
    )
    document = TestClient(app).get("/openapi.json").raise_for_status()
    (DOCS / "openapi.json").write_text(document.text)
    (DOCS / "api-reference.md").write_text(api_reference_page(document.json()))
    (DOCS / "cli-reference.md").write_text(
        cli_reference_page({"openbell": client_commands, "openbell-server": server_commands})
    )
    (DOCS / "grpc-reference.md").write_text(grpc_reference_page((ROOT / "proto/trading.proto").read_text()))
    (DOCS / "licences.md").write_text(licences_page(package.name for package in pinned()))
    (DOCS / "schema.md").write_text(
        schema_page({str(path.relative_to(migrations.FOLDER)): path.read_text() for path in migrations.FILES})
    )
    (DOCS / "brokers.md").write_text(brokers_page(BROKERS))
    entries = register(rows_of(DOCS / "brokers"))
    (DOCS / "brokers/register.md").write_text(register_page(entries))
    (DOCS / "brokers/register.json").write_text(json.dumps(entries, indent=1) + "\n")
    (DOCS / "errors.md").write_text(errors_page())
    (DOCS / "lifecycle.md").write_text(order_lifecycle_page())
    (DOCS / "metrics.md").write_text(metrics_page())
    for name, draw in (DRAWINGS | LIFECYCLES).items():
        (DOCS / f"images/{name}.svg").write_text(draw())


if __name__ == "__main__":
    main()
