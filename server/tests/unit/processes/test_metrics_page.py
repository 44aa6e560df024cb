"""The page of metrics says what the code registers, and the alerts are about metrics that there are."""

import re
from pathlib import Path

from metrics_page import described_metrics, metrics_page

DOCS = Path(__file__).parents[4] / "docs"
# What would make as many series as there are callers.
UNBOUNDED = {"account", "account_id", "organization", "symbol", "user", "error", "path", "request_id", "key"}


def test_the_page_is_made_from_the_code() -> None:
    assert (DOCS / "metrics.md").read_text() == metrics_page(), "run make generate"


def test_names_say_what_and_in_which_unit_and_labels_are_few() -> None:
    for metric in (each for metrics in described_metrics().values() for each in metrics):
        assert re.fullmatch(r"openbell_[a-z_]+[a-z]", metric.name), metric.name
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert metric.kind != "histogram" or metric.name.endswith("_seconds"), metric.name
        assert not UNBOUNDED & set(metric.labels), metric.name


def test_alerts_are_about_metrics_that_there_are() -> None:
    known = {metric.name for metrics in described_metrics().values() for metric in metrics}
    named = set(re.findall(r"\bopenbell_[a-z_]+", (DOCS / "alerts.yml").read_text()))
    assert len(named) >= 5
    assert named <= known
