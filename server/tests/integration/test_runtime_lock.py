"""What `make sbom` installs from requirements/runtime.txt runs the server, and the bill lists all of it."""

import json
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
# Alembic runs the one module that cannot be imported.
IMPORT_ALL = """
import importlib, pkgutil, openbell, openbell_exchange, openbell_server, openbell_torture
for package in (openbell, openbell_exchange, openbell_server, openbell_torture):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("migrations.env"):
            importlib.import_module(module.name)
print(openbell_server.__file__)
"""


def run(*command: str | Path) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=600).stdout


# One test: two workers would install into the same folder.
def test_the_runtime_lock_is_enough_for_the_server_and_its_bill_of_materials_is_complete() -> None:
    run("make", "sbom")
    bill = ROOT / "build/sbom.json"
    text = bill.read_text()
    components = {canonicalize_name(each["name"]): each for each in json.loads(text)["components"]}
    pins = re.findall(r"^([a-z0-9][^\\\n]*==[^\\\n]+)", (ROOT / "requirements/runtime.txt").read_text(), re.MULTILINE)
    here = [pin for pin in map(Requirement, pins) if not pin.marker or pin.marker.evaluate()]
    wanted = {canonicalize_name(pin.name): str(pin.specifier) for pin in here}
    wanted |= {canonicalize_name(name): f"=={version(name)}" for name in ("openbell", "openbell-torture")}
    assert {name: f"=={each['version']}" for name, each in components.items()} == wanted
    assert all(each["licenses"][0]["expression"] for each in components.values())
    assert str(ROOT) not in text
    assert not re.search(r"file:|serialNumber|timestamp", text)

    run(ROOT / ".venv/bin/python", "tools/sbom.py")
    assert bill.read_text() == text

    runtime = ROOT / "build/runtime"
    assert run(runtime / "bin/python", "-I", "-c", IMPORT_ALL).startswith(str(runtime))
