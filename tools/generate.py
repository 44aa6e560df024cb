"""Makes what is generated from the code: docs/openapi.json, pages that say all of a table or an interface, drawings."""

from pathlib import Path
from typing import Any, cast

from api_reference import api_reference_page
from cli_reference import cli_reference_page
from drawings import DRAWINGS
from grpc_reference import grpc_reference_page
from lifecycle_drawings import LIFECYCLES
from litestar.testing import TestClient

from openbell.cli import app as client_commands
from openbell_server.brokers.registry import BROKERS
from openbell_server.cli import app as server_commands
from openbell_server.processes.api import rest_app
from openbell_server.processes.brokers_page import brokers_page
from openbell_server.processes.metrics_page import metrics_page
from openbell_server.processes.order_lifecycle_page import order_lifecycle_page
from openbell_server.transport.rest.openapi.errors_page import errors_page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def main() -> None:
    """Ask the application itself; it needs no database to tell."""
    app = rest_app(cast("Any", None), cast("Any", None), b"", *[cast("Any", None)] * 6)
    document = TestClient(app).get("/openapi.json").raise_for_status()
    (DOCS / "openapi.json").write_text(document.text)
    (DOCS / "api-reference.md").write_text(api_reference_page(document.json()))
    (DOCS / "cli-reference.md").write_text(
        cli_reference_page({"openbell": client_commands, "openbell-server": server_commands})
    )
    (DOCS / "grpc-reference.md").write_text(grpc_reference_page((ROOT / "proto/trading.proto").read_text()))
    (DOCS / "brokers.md").write_text(brokers_page(BROKERS))
    (DOCS / "errors.md").write_text(errors_page())
    (DOCS / "lifecycle.md").write_text(order_lifecycle_page())
    (DOCS / "metrics.md").write_text(metrics_page())
    for name, draw in (DRAWINGS | LIFECYCLES).items():
        (DOCS / f"images/{name}.svg").write_text(draw())


if __name__ == "__main__":
    main()
