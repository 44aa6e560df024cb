"""Builds the documentation's site into build/site and finds what a reader would stumble over."""

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SITE = ROOT / "build/site"
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
SOURCES = "https://github.com/openbell/openbell/blob/main"


class _Page(HTMLParser):
    """What a page links to, what it loads, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        has = {name: value for name, value in attributes if value}
        if tag == "a" and "href" in has:
            self.links.add(has["href"])
        elif tag == "link" and "href" in has and has.get("rel") not in {"canonical", "next", "prev"}:
            self.loads.add(has["href"])
        elif "src" in has:
            self.loads.add(has["src"])
        self.anchors |= {has[name] for name in ("id", "name") if name in has}


def nav_problems() -> list[str]:
    """Pages that are missing in the site's tabs, or in the list of the same tab in docs/README.md."""
    tabs = {tab: list(_targets([entries])) for tab, entries in _nav()}
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    listed = {page for entries in tabs.values() for page in entries}
    front = SECTION.split((DOCS / "README.md").read_text())
    sections = {name: text for name, text in zip(front[1::2], front[2::2], strict=True) if name in tabs}
    found = [
        *(f"mkdocs.yml: docs/{page} is missing in nav" for page in sorted(pages - listed)),
        *(f"mkdocs.yml: nav names docs/{page}, which is not there" for page in sorted(listed - pages)),
    ]
    if list(sections) != list(tabs):
        found.append(f"docs/README.md: its sections must be {', '.join(tabs)}, in this order")
    for tab, entries in tabs.items():
        # Decisions have a list of their own.
        linked = [page for page in entries if page != "README.md" and not page.startswith("adr/0")]
        missing = [page for page in linked if f"]({page})" not in sections.get(tab, "")]
        found += [f"docs/README.md: {page} is missing under {tab}" for page in missing]
    return found


def _nav() -> list[tuple[str, object]]:
    """The tabs of the site, in order."""
    return [item for tab in yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"] for item in tab.items()]


def _targets(entries: list[object]) -> Iterator[str]:
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            if isinstance(value, list):
                yield from _targets(value)
            else:
                yield str(value)


def build() -> list[str]:
    """Make the site; if the builder refuses, say with what words. Not strictly: it knows no file outside of docs."""
    command = [sys.executable, "-m", "zensical", "build", "--clean"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    return [] if done.returncode == 0 else (done.stdout + done.stderr).splitlines()


def lead_outside_to_the_sources() -> None:
    """A link to a file of the project that is no page leads to GitHub; in the sources it stays a path."""
    for path in SITE.rglob("*.html"):
        text = before = path.read_text()
        for link in _Page(text).links:
            target = _outside(path, link)
            if target is not None:
                text = text.replace(f'href="{link}"', f'href="{SOURCES}/{target.relative_to(ROOT)}"')
        if text != before:
            path.write_text(text)


def _outside(page: Path, link: str) -> Path | None:
    """The file of the project that a link out of the site means; the builder takes one of Markdown for a page."""
    parts = urlsplit(link)
    if parts.scheme or not parts.path:
        return None
    target = (DOCS / page.parent.relative_to(SITE) / unquote(parts.path)).resolve()
    if target.is_relative_to(DOCS):
        return None
    meant = (target, target.with_suffix(".md"), target.with_name("README.md"))
    return next((each for each in meant if each.exists()), None)


def site_problems() -> list[str]:
    """Links and anchors that lead nowhere, and what would be loaded from elsewhere."""
    pages = {path: _Page(path.read_text()) for path in sorted(SITE.rglob("*.html"))}
    # Nobody knows from which folder the page for wrong addresses is shown.
    pages = {path: page for path, page in pages.items() if path.name != "404.html"}
    found = []
    for path, page in pages.items():
        name = path.relative_to(SITE)
        found += [f"{name}: loads {source}" for source in sorted(page.loads) if urlsplit(source).netloc]
        for link in sorted(page.links | page.loads):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                found.append(f"{name}: {link} leads nowhere")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{name}: {link} names an anchor that is not there")
    return found


def problems() -> list[str]:
    """Build the site, and say everything that is wrong with it."""
    return nav_problems() or build() or _checked()


def _checked() -> list[str]:
    lead_outside_to_the_sources()
    return site_problems()
