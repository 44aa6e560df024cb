"""Reads bodies with the classes that openapi-python-client generated; runs in the generator's own environment.

The argument is the generated package. Standard input has bodies and responses, as proof.generators lists them; the last
line of the output has what was refused and dropped.
"""

import importlib
import inspect
import json
import re
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, get_args


def main() -> None:
    package = Path(sys.argv[1])
    sys.path.insert(0, str(package.parent))
    asked = json.load(sys.stdin)
    modules = {path.stem: path for path in package.glob("api/*/*.py")}
    read = {name: set(re.findall(r"status_code == (\d+)", path.read_text())) for name, path in modules.items()}
    dropped = [
        f"{name} {status}" for name, status in asked["responses"] if str(status) not in read.get(snake(name), ())
    ]
    refused = []
    for place, name, body in asked["bodies"]:
        path = modules[snake(name)]
        module = importlib.import_module(f"{package.name}.api.{path.parent.name}.{path.stem}")
        if problem := problem_of(module, body):
            refused.append(f"{place} {name}: {problem}")
    print(json.dumps({"dropped": dropped, "refused": refused}))


def problem_of(module: Any, body: Any) -> str:
    annotation = inspect.signature(module._get_kwargs).parameters["body"].annotation
    kinds = [each for each in (annotation, *get_args(annotation)) if hasattr(each, "from_dict")]
    try:
        written = kinds[0].from_dict(body).to_dict()
    except Exception as error:  # noqa: BLE001 - whatever generated code raises is a refusal
        return f"{type(error).__name__}: {error}"
    return "" if plain(written) == plain(body) else f"becomes {written}"


def plain(value: Any) -> Any:
    """With every time in one spelling."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT", value):
        return datetime.fromisoformat(value).isoformat()
    return value


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


if __name__ == "__main__":
    main()
