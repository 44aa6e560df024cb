"""The OpenAPI document: whole, exact, committed as served, and nothing in it unexplained."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import jsonschema
import msgspec
import pytest
from errors_page import errors_page
from openapi_spec_validator import OpenAPIV31SpecValidator

from openbell_server.domain.errors import CODES
from openbell_server.processes.rest_wiring import rest_app
from openbell_server.transport.rest.openapi.operation_table import OPERATIONS, TAGS
from openbell_server.transport.rest.openapi.references import resolved
from openbell_server.transport.rest.strict_json import read_json
from support.rest.rest_api import rest_dependencies

DOCS = Path(__file__).parents[5] / "docs"
Document = dict[str, Any]


ANSWERS: dict[str, httpx.Response] = {}


async def served(path: str) -> httpx.Response:
    """An answer of the application, which needs no database to describe itself."""
    if path not in ANSWERS:
        app = cast("Any", rest_app(rest_dependencies(cast("Any", None))))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://openbell.test") as client:
            ANSWERS[path] = await client.get(path)
    return ANSWERS[path]


@pytest.fixture
async def document() -> Document:
    answer = await served("/openapi.json")
    assert answer.status_code == 200, "a route has no row in the table of operations; the log says which"
    return cast("Document", answer.json())


def operations(document: Document) -> Iterator[tuple[str, str, Document]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parameters = [resolved(document, each) for each in operation["parameters"]]
            responses = {status: resolved(document, each) for status, each in operation["responses"].items()}
            yield method, path, {**operation, "parameters": parameters, "responses": responses}


async def test_every_row_of_the_table_has_a_route(document: Document) -> None:
    shown = {(method.upper(), path) for method, path, _ in operations(document)}
    assert [f"{row.method} {row.path}" for row in OPERATIONS if (row.method, row.path) not in shown] == []


async def test_the_committed_document_is_the_served_one() -> None:
    assert (DOCS / "openapi.json").read_text() == (await served("/openapi.json")).text, "run make generate"


async def test_a_description_is_sent_compressed_and_only_if_it_changed() -> None:
    app = cast("Any", rest_app(rest_dependencies(cast("Any", None))))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://openbell.test") as client:
        for path in ("/openapi.json", "/openapi/accounts.json", "/docs"):
            plain = await client.get(path, headers={"accept-encoding": "identity"})
            packed = await client.get(path, headers={"accept-encoding": "gzip"})
            again = await client.get(path, headers={"if-none-match": plain.headers["etag"]})
            assert packed.headers["content-encoding"] == "gzip"
            assert int(packed.headers["content-length"]) * 5 < int(plain.headers["content-length"])
            assert (plain.content, again.status_code, again.content) == (packed.content, 304, b"")
            assert plain.headers["cache-control"] == "no-cache"


async def test_every_answer_forbids_caches_and_guessed_types() -> None:
    app = cast("Any", rest_app(rest_dependencies(cast("Any", None))))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://openbell.test") as client:
        for path in ("/nowhere", "/v1/accounts"):
            answer = await client.get(path)
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-store"


def test_the_committed_page_of_errors_is_made_of_the_table_of_codes() -> None:
    assert (DOCS / "errors.md").read_text() == errors_page(), "run make generate"


async def test_the_documents_are_valid_openapi(document: Document) -> None:
    OpenAPIV31SpecValidator(document).validate()
    OpenAPIV31SpecValidator((await served("/openapi/accounts.json")).json()).validate()


async def test_the_accounts_document_has_the_accounts_paths_only_and_its_own_version() -> None:
    accounts = (await served("/openapi/accounts.json")).json()
    assert accounts["info"]["version"] == "0.1.0"
    assert accounts["paths"]
    assert all(path.startswith("/v1/accounts") for path in accounts["paths"])
    text = str(accounts["paths"]) + str(accounts["components"])
    named = set(re.findall(r"#/components/schemas/(\w+)", text))
    assert named == set(accounts["components"]["schemas"])


def faults_of(operation: Document) -> Iterator[str]:
    """What a reader would miss."""
    for field in ("summary", "description"):
        if field not in operation or operation[field] == "":
            yield f"no {field}"
    if len(operation["tags"]) != 1 or operation["tags"][0] not in TAGS:
        yield "not exactly one known tag"
    if not any(status.startswith("4") for status in operation["responses"]):
        yield "no 4xx"
    for parameter in operation["parameters"]:
        if not parameter.get("description") or "example" not in parameter:
            yield f"parameter {parameter['name']} lacks a description or an example"
    yield from faults_of_content("body", operation.get("requestBody", {}))
    for status, response in operation["responses"].items():
        yield from faults_of_content(status, response)
        if not response["description"]:
            yield f"{status} without description"


def faults_of_content(place: str, holder: Document) -> Iterator[str]:
    for content in holder.get("content", {}).values():
        if not content.get("examples") and "example" not in content:
            yield f"{place} without example"


async def test_no_operation_leaves_a_reader_asking(document: Document) -> None:
    found = {f"{m} {p}": list(faults_of(operation)) for m, p, operation in operations(document)}
    assert {place: faults for place, faults in found.items() if faults} == {}


async def test_the_document_is_small_enough_to_read(document: Document) -> None:
    text = (await served("/openapi.json")).text
    assert len(text.encode()) <= 400_000
    assert len(text.splitlines()) <= 15_000
    assert len(list(operations(document))) <= 80


async def test_operation_ids_are_unique(document: Document) -> None:
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(ids) == len(set(ids))


async def test_every_shape_has_a_name_and_a_sentence(document: Document) -> None:
    schemas = document["components"]["schemas"]
    assert [name for name, schema in schemas.items() if schema.get("title") != name] == []
    assert [name for name, schema in schemas.items() if not schema.get("description")] == []


def validator(document: Document, schema: Document) -> jsonschema.Draft202012Validator:
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    return jsonschema.Draft202012Validator({**schema, "components": document["components"]}, format_checker=checker)


async def test_every_example_has_the_shape_it_is_an_example_of(document: Document) -> None:
    checked = 0
    for _, _, operation in operations(document):
        bodies = [operation["requestBody"]] if "requestBody" in operation else []
        for holder in (*bodies, *operation["responses"].values()):
            for content in holder.get("content", {}).values():
                examples = [example["value"] for example in content.get("examples", {}).values()]
                for example in [*examples, *([content["example"]] if "example" in content else [])]:
                    validator(document, content["schema"]).validate(example)
                    checked += 1
        for parameter in operation["parameters"]:
            validator(document, parameter["schema"]).validate(parameter["example"])
    assert checked > len(OPERATIONS)


@pytest.mark.parametrize("row", OPERATIONS, ids=lambda row: row.operation_id)
def test_our_own_reader_takes_every_example_of_a_body(row: Any) -> None:
    for example in row.body_examples.values():
        read_json(msgspec.json.encode(example), row.body)


GOOD_SPECS: list[dict[str, object]] = [
    {"Market": {"quantity": "10"}},
    {"Limit": {"price": "0.000000000000000001", "quantity": "999999999999999999.999999999999999999"}},
    {"Stop": {"stop_price": "1", "quantity": "1", "time_in_force": None}},
    {"StopLimit": {"stop_price": "1", "price": "2", "quantity": "0.5", "time_in_force": "DAY"}},
]
BAD_SPECS: list[dict[str, object]] = [
    {},
    {"Market": {"quantity": "10"}, "Stop": {"stop_price": "1", "quantity": "1"}},
    {"market": {"quantity": "10"}},
    {"Market": {"quantity": 10}},
    {"Market": {"quantity": "0"}},
    {"Market": {"quantity": "0.00"}},
    {"Market": {"quantity": "-1"}},
    {"Market": {"quantity": "1e5"}},
    {"Market": {"quantity": "01"}},
    {"Market": {"quantity": "1."}},
    {"Market": {"quantity": "1", "price": "1"}},
    {"Market": {"quantity": "1", "time_in_force": "GTC"}},
    {"Limit": {"quantity": "1"}},
]


@pytest.mark.parametrize("spec", [*GOOD_SPECS, *BAD_SPECS], ids=str)
async def test_the_document_says_exactly_which_specs_pass(document: Document, spec: dict[str, object]) -> None:
    payload = {"symbol": "AAPL", "order_side": "BUY", "spec": spec}
    body = {"command": {"type": "CREATE", "payload": payload}}
    passes = validator(document, {"$ref": "#/components/schemas/Submit"}).is_valid(body)
    assert passes is (spec in GOOD_SPECS)


async def test_the_page_shows_every_operation_shape_and_code_and_loads_nothing(document: Document) -> None:
    answer = await served("/docs")
    page = answer.text
    for _, path, operation in operations(document):
        assert f'id="{operation["operationId"]}"' in page
        assert path.replace("/", "<wbr>/") in page
    assert [name for name in document["components"]["schemas"] if f'id="shape-{name}"' not in page] == []
    assert [name for name in CODES if f'id="error-{name}"' not in page] == []
    anchors = set(re.findall(r'href="#([^"]+)"', page))
    assert anchors <= set(re.findall(r'id="([^"]+)"', page))
    assert re.findall(r"""(?:src|href)=["'](?![#/])""", page) == []
    assert "<script" not in page
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "http" not in policy
    assert "unsafe" not in policy
