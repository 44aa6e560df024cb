"""What installing the library brings along."""

import re
from importlib.metadata import requires

from packaging.requirements import Requirement

PACKAGES_MAX = 15


def brought_by(package: str) -> set[str]:
    """Every package that is installed with this one where no extra is asked for."""
    found: set[str] = set()
    waiting = [package]
    while waiting:
        for text in requires(waiting.pop()) or []:
            needed = Requirement(text)
            name = re.sub(r"[-_.]+", "-", needed.name).lower()
            if name not in found and (needed.marker is None or needed.marker.evaluate({"extra": ""})):
                found.add(name)
                waiting.append(name)
    return found


def test_installing_openbell_brings_few_packages_and_no_grpc() -> None:
    brought = brought_by("openbell")
    assert len(brought) <= PACKAGES_MAX
    assert not {name for name in brought if name.startswith("grpc")}
