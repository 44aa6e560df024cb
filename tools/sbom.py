"""Writes build/sbom.json (CycloneDX) from build/runtime, where requirements/runtime.txt and our wheels are installed.

The same environment gives the same bytes: the document has no time and no serial number.
"""

import json
import subprocess
import sys
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from licences import licence
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


def software_bill(environment: Path) -> str:
    """CycloneDX's own tool lists the packages; licences are those of docs/licences.md."""
    tool = Path(sys.executable).with_name("cyclonedx-py")
    reproducible = ["--output-reproducible", "--spec-version", "1.6", "--no-validate"]
    root = ["--pyproject", ROOT / "server/pyproject.toml"]
    listed = subprocess.run(
        [tool, "environment", *reproducible, *root, environment],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if listed.returncode:
        raise SystemExit(listed.stderr)
    document = json.loads(listed.stdout)
    for component in document["components"]:
        # Websites that packages state about themselves: half of the document, and they identify nothing.
        component.pop("externalReferences", None)
        component["licenses"] = [
            {"expression": licence(canonicalize_name(component["name"])), "acknowledgement": "declared"}
        ]
    for tool in document["metadata"]["tools"]["components"]:
        del tool["externalReferences"]
    text = json.dumps(document, indent=2, sort_keys=True) + "\n"
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise SystemExit(f"The document does not conform to CycloneDX 1.6: {error}")
    return text


if __name__ == "__main__":
    (ROOT / "build/sbom.json").write_text(software_bill(ROOT / "build/runtime"))
