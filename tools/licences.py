"""Finds the licence of every package of requirements/runtime.txt, and those that nobody has allowed."""

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
    return PAGE.format(
        agents=agents, allowed=", ".join(sorted(ALLOWED)), packages="\n".join(rows), by_hand="\n".join(by_hand)
    )


if __name__ == "__main__":
    problems = refusals([*(package.name for package in pinned()), *of_agents()])
    print(
        "\n".join(problems) or "Every package of requirements/runtime.txt and of openbell-mcp has an allowed licence."
    )
    sys.exit(1 if problems else 0)
