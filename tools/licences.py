"""Finds the licence of every package of requirements/runtime.txt, and those that nobody has allowed."""

import json
import re
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, metadata, requires
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements/runtime.txt"
# Permissive ones, and MPL-2.0, which asks only for changes of its own files. Identifiers are those of SPDX.
ALLOWED = {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "MPL-2.0", "PSF-2.0"}
SPELLINGS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "ISC License": "ISC",
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: MIT License": "MIT",
    "MIT License": "MIT",
}
# Of what the pages contain; the last is that of fonts.
ALLOWED_OF_PAGES = {"Apache-2.0", "BSD-3-Clause", "ISC", "MIT", "OFL-1.1"}
# Licences that a person has read in the package, because its metadata cannot be used.
OTHER_SYSTEM = "installed only on other systems or versions of Python"
READ_BY_HAND = {
    "async-timeout": ("Apache-2.0", OTHER_SYSTEM),
    "colorama": ("BSD-3-Clause", OTHER_SYSTEM),
    "httpx2-jsfetch": ("BSD-3-Clause", OTHER_SYSTEM),
    "python-dateutil": ("Apache-2.0 OR BSD-3-Clause", 'its metadata names the licence "Dual License"'),
    "rich-click": ("MIT", "its metadata has the text of the licence instead of its name"),
}
PAGE = """# Licences

This page lists the licence of every package that a server installs. It is generated from the metadata of the packages
in `requirements/runtime.txt`; the versions are there. A test fails if a package has a licence that is not allowed, or
none that can be recognized. Development tools are not listed, because they are not shipped.

`openbell-mcp` is installed apart from the server. It also brings: {agents}.

The console's pages, which the server contains, are built with: {pages}. The texts of their licences are beside the
pages, in `licences.md` and `licences-of-fonts.md`.

Allowed: {allowed}.

| Licence | Packages |
|---|---|
{packages}

## Read by hand

| Package | Licence | Why |
|---|---|---|
{by_hand}
"""


def pinned(lock: Path = LOCK) -> list[Requirement]:
    """The packages of a lock; one may have two versions, for different versions of Python."""
    lines = re.findall(r"^([a-z0-9][^\\\n]*==[^\\\n]+)", lock.read_text(), re.MULTILINE)
    return [Requirement(line.strip()) for line in lines]


def brought_by(name: str) -> set[str]:
    """The packages that an installed package needs, directly or not, on this system."""
    needed: set[str] = set()
    following = [name]
    while following:  # ends when every package was seen once
        for stated in requires(following.pop()) or ():
            requirement = Requirement(stated)
            found = canonicalize_name(requirement.name)
            if found not in needed and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
                needed.add(found)
                following.append(found)
    return needed


def of_agents() -> list[str]:
    """What only openbell-mcp brings."""
    return sorted(brought_by("openbell-mcp") - {canonicalize_name(each.name) for each in pinned()} - {"openbell"})


def of_pages(lock: Path = ROOT / "console/package-lock.json") -> dict[str, str]:
    """The packages that the pages of the console contain, each with its licence; the tools that build them are none."""
    packages = json.loads(lock.read_text())["packages"]
    kept = {name.rpartition("node_modules/")[2]: each for name, each in packages.items() if name and "dev" not in each}
    return {name: str(each.get("license", "")) for name, each in sorted(kept.items()) if "devOptional" not in each}


def licence(name: str) -> str:
    """What a person has read, else what the package states about itself; empty if it states nothing."""
    if name in READ_BY_HAND:
        return READ_BY_HAND[name][0]
    try:
        stated = metadata(name)
    except PackageNotFoundError:
        return ""
    classifiers = [each for each in stated.get_all("Classifier") or () if each.startswith("License ::")]
    text = stated.get("License-Expression") or stated.get("License") or " OR ".join(classifiers)
    return SPELLINGS.get(text, text.strip())


def is_allowed(expression: str) -> bool:
    """AND binds closer than OR; what has parentheses or exceptions must be read by hand."""
    return any(ALLOWED.issuperset(choice.split(" AND ")) for choice in expression.split(" OR "))


def refusals(names: Iterable[str]) -> list[str]:
    """What is wrong, and what to do."""
    remedy = (
        "Remove the package, or read its licence: if it is a permissive one, add it to ALLOWED, its spelling to "
        "SPELLINGS, or the package with the reason to READ_BY_HAND in tools/licences.py."
    )
    return [
        f"{name}: the licence is {licence(name).splitlines()[0]!r}, which is not allowed. {remedy}"
        if licence(name)
        else f"{name}: no licence was found in its metadata, or it is not installed here. {remedy}"
        for name in names
        if not is_allowed(licence(name))
    ]


def licences_page(names: Iterable[str]) -> str:
    """The page: a row for each licence."""
    packages = sorted((licence(name), name) for name in set(names))
    rows = [f"| {kind} | {', '.join(name for _, name in group)} |" for kind, group in groupby(packages, itemgetter(0))]
    by_hand = [f"| {name} | {kind} | {why} |" for name, (kind, why) in READ_BY_HAND.items()]
    agents = ", ".join(f"{name} ({licence(name)})" for name in of_agents())
    pages = ", ".join(f"{name} ({kind})" for name, kind in of_pages().items())
    return PAGE.format(
        agents=agents,
        pages=pages,
        allowed=", ".join(sorted(ALLOWED)),
        packages="\n".join(rows),
        by_hand="\n".join(by_hand),
    )


def refusals_of_pages() -> list[str]:
    return [
        f"{name}: the licence is {kind!r}, which is not allowed in the console's pages. Remove the package from "
        "console/package.json, or read its licence and add it to ALLOWED_OF_PAGES in tools/licences.py."
        for name, kind in of_pages().items()
        if kind not in ALLOWED_OF_PAGES
    ]


if __name__ == "__main__":
    problems = refusals([*(package.name for package in pinned()), *of_agents()]) + refusals_of_pages()
    print(
        "\n".join(problems) or "Every package of the server, of openbell-mcp and of the pages has an allowed licence."
    )
    sys.exit(1 if problems else 0)
