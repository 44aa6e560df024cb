"""Moves what operations have in common into the components of an OpenAPI document, and follows references to it."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from openbell_server.transport.rest.openapi.operation import Scheme

Json = dict[str, Any]
# Of every operation that has no security of its own.
SECURITY: Final[list[Json]] = [{Scheme.API_KEY: []}, {Scheme.BEARER: []}]


def share_parameters(document: Json) -> None:
    """Replace every parameter that several operations have by a reference to one component."""
    counts = Counter(_text(each) for holder in _holders(document) for each in holder["parameters"])
    shared: Json = document["components"].setdefault("parameters", {})
    for text in sorted(text for text, count in counts.items() if count > 1):
        parameter = json.loads(text)
        shared[_free_name(_camel(parameter["name"]), shared)] = parameter
    names = {_text(parameter): name for name, parameter in shared.items()}
    for holder in _holders(document):
        holder["parameters"] = [
            {"$ref": f"#/components/parameters/{names[_text(each)]}"} if _text(each) in names else each
            for each in holder["parameters"]
        ]


def all_codes(operation: Mapping[str, Any], document: Json) -> list[str]:
    """The error codes of an operation: its own, and with a credential those of all operations."""
    common = document["x-openbell-codes"] if operation.get("security", SECURITY) else []
    return [*operation["x-openbell-codes"], *common]


def resolved(document: Json, part: Json) -> Json:
    """The part of the document itself, or what its reference leads to."""
    while "$ref" in part:
        found: Any = document
        for step in part["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        part = found
    return part


def _holders(document: Json) -> Iterator[Json]:
    for methods in document["paths"].values():
        yield from methods.values()


def _text(part: Json) -> str:
    return json.dumps(part, sort_keys=True)


def _camel(name: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in name.replace("-", "_").split("_"))


def _free_name(name: str, taken: Json) -> str:
    number = 1
    while (free := name if number == 1 else f"{name}{number}") in taken:
        number += 1
    return free
