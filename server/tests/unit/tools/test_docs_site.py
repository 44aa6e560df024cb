"""What is wrong with the documentation's site is found before a reader does."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[4]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The checks, on a project of two pages and a file."""
    checks = import_module("docs_site")
    for name, folder in (("ROOT", tmp_path), ("DOCS", tmp_path / "docs"), ("SITE", tmp_path / "build/site")):
        monkeypatch.setattr(checks, name, folder)
        folder.mkdir(parents=True, exist_ok=True)
    (tmp_path / "CONTRIBUTING.md").touch()
    (tmp_path / "mkdocs.yml").write_text("nav:\n  - More:\n      - First: README.md\n      - Second: second.md\n")
    (tmp_path / "docs/README.md").write_text("# Front page\n\n## More\n\n- [second](second.md)\n")
    (tmp_path / "docs/second.md").touch()
    (tmp_path / "build/site/second.html").write_text('<h2 id="here">Here</h2>')
    return checks


def first_page(site: Any, text: str) -> Path:
    page: Path = site.SITE / "index.html"
    page.write_text(text)
    return page


def test_a_site_without_faults_has_no_problems(site: Any) -> None:
    first_page(site, '<a href="second.html#here">there</a> <a href="https://example.com/">elsewhere</a>')
    assert site.nav_problems() + site.site_problems() == []


def test_a_link_an_anchor_and_an_image_that_lead_nowhere_are_told(site: Any) -> None:
    first_page(site, '<a href="third.html">x</a><a href="second.html#there">y</a><img src="images/no.svg">')
    assert site.site_problems() == [
        "index.html: images/no.svg leads nowhere",
        "index.html: second.html#there names an anchor that is not there",
        "index.html: third.html leads nowhere",
    ]


def test_what_would_be_loaded_from_elsewhere_is_told(site: Any) -> None:
    first_page(site, '<script src="https://cdn.example.com/a.js"></script>')
    assert site.site_problems() == ["index.html: loads https://cdn.example.com/a.js"]


def test_a_link_to_a_file_outside_of_the_docs_leads_to_the_sources(site: Any) -> None:
    page = first_page(site, '<a href="../CONTRIBUTING.html">how</a>')
    site.lead_outside_to_the_sources()
    assert page.read_text() == '<a href="https://github.com/openbell/openbell/blob/main/CONTRIBUTING.md">how</a>'


def test_a_page_that_is_in_no_tab_is_reported(site: Any) -> None:
    (site.DOCS / "lost.md").touch()
    (site.DOCS / "second.md").unlink()
    assert site.nav_problems() == [
        "mkdocs.yml: docs/lost.md is missing in nav",
        "mkdocs.yml: nav names docs/second.md, which is not there",
    ]


def test_a_page_that_the_front_page_lists_under_another_tab_is_reported(site: Any) -> None:
    (site.ROOT / "mkdocs.yml").write_text("nav:\n  - First: [README.md]\n  - More: [second.md]\n")
    (site.DOCS / "README.md").write_text("## First\n\n- [second](second.md)\n")
    assert site.nav_problems() == [
        "docs/README.md: its sections must be First, More, in this order",
        "docs/README.md: second.md is missing under More",
    ]


def test_the_site_has_six_tabs_and_every_page_is_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = import_module("docs_site")
    tabs = [next(iter(tab)) for tab in yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]]
    assert tabs == ["Start", "Guides", "Concepts", "Reference", "Operate", "Guarantees"]
    assert checks.nav_problems() == []
