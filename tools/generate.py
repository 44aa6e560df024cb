"""Makes what is generated from the code: docs/openapi.json, brokers.md, errors.md, lifecycle.md and metrics.md."""

from pathlib import Path
from typing import Any, cast

from litestar.testing import TestClient

from openbell_server.brokers.registry import BROKERS
from openbell_server.processes.api import rest_app
from openbell_server.processes.brokers_page import brokers_page
from openbell_server.processes.metrics_page import metrics_page
from openbell_server.processes.order_lifecycle_page import order_lifecycle_page
from openbell_server.transport.rest.openapi.errors_page import errors_page

DOCS = Path(__file__).parents[1] / "docs"


def main() -> None:
    """Ask the application itself; it needs no database to tell."""
    app = rest_app(cast("Any", None), cast("Any", None), b"", *[cast("Any", None)] * 6)
    (DOCS / "openapi.json").write_text(TestClient(app).get("/openapi.json").raise_for_status().text)
    (DOCS / "brokers.md").write_text(brokers_page(BROKERS))
    (DOCS / "errors.md").write_text(errors_page())
    (DOCS / "lifecycle.md").write_text(order_lifecycle_page())
    (DOCS / "metrics.md").write_text(metrics_page())


if __name__ == "__main__":
    main()
