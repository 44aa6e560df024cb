"""The page of the gRPC interface, made of proto/trading.proto: services, messages, fields and their comments."""

import re
from collections.abc import Iterator

INTRODUCTION = (
    "# gRPC\n\n"
    "This page lists every call, message and field of [proto/trading.proto](../proto/trading.proto). `make generate` "
    "writes it. [Events](events.md) describes how subscriptions behave.\n\n"
)
BLOCK = re.compile(r"^(service|message|enum) (\w+) \{\}?$")
CALL = re.compile(r"^rpc (\w+)\((stream )?(\w+)\) returns \((stream )?(\w+)\);$")
FIELD = re.compile(r"^(optional |repeated )?(map<[^>]+>|[\w.]+) (\w+) = (\d+);$")
VALUE = re.compile(r"^(\w+) = (\d+);$")


def grpc_reference_page(proto: str) -> str:
    """docs/grpc-reference.md."""
    head, _, body = proto.partition("\nsyntax = ")
    lines = body.splitlines()
    names = {found[2] for line in lines if (found := BLOCK.match(line))}
    said = " ".join(line.removeprefix("//").strip() for line in head.splitlines())
    return INTRODUCTION + f"{said}\n" + "\n".join(_blocks(lines, names)) + "\n"


def _blocks(lines: list[str], names: set[str]) -> Iterator[str]:
    """A heading and a table for each block; the comment before a line is its meaning."""
    comment: list[str] = []
    kind = choice = ""
    for line in (line.strip() for line in lines):
        if line.startswith("//"):
            comment.append(line.removeprefix("//").strip())
            continue
        meaning, comment = " ".join(comment), []
        if block := BLOCK.match(line):
            kind = block[1]
            told = f"{kind.capitalize()}. {meaning}".strip()
            yield f"\n## {block[2]}\n\n{told}\n"
        elif line.startswith("oneof "):
            choice = f"One of `{line.split()[1]}`. "
        elif line == "}":
            choice = ""
        elif kind and line:
            yield _row(kind, line, (choice + meaning).strip(), names)


def _row(kind: str, line: str, meaning: str, names: set[str]) -> str:
    if kind == "service" and (call := CALL.match(line)):
        told = f"takes {_type(call[2], call[3], names)}, answers {_type(call[4], call[5], names)}"
        return f"- `{call[1]}` {told}. {meaning}".rstrip()
    if kind == "message" and (field := FIELD.match(line)):
        return f"- `{field[3]}` = {field[4]}, {_type(field[1], field[2], names)}. {meaning}".rstrip()
    if kind == "enum" and (value := VALUE.match(line)):
        return f"- `{value[1]}` = {value[2]}. {meaning}".rstrip()
    raise ValueError(f"This line of the proto is not understood: {line}")


def _type(label: str | None, name: str, names: set[str]) -> str:
    shown = f"[{name}](#{name.lower()})" if name in names else f"`{name}`"
    return f"{label or ''}{shown}"
