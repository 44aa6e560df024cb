"""HTTP under random requests: every operation by the OpenAPI document, and a caller's session by a model."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from openbell_server.adapters.postgres.connection import open_pool
from openbell_server.devtools.local_platform import ACME, IDENTITY_PROVIDER, LocalPlatform
from openbell_server.transport.rest.openapi.operation import NEXT_CURSOR, ORGANIZATION, PATH_PARAMETERS
from proof.figures import Figures
from support.builders.tenant import a_key
from support.history.intent_model import IntentMachine, World
from support.identity.identity_provider import MACHINES
from support.identity.loopback_issuers import LoopbackIssuers, bearer
from support.rest.openapi_conformance import Conformance

TESTS = Path(__file__).parents[1]
# What a gate can afford leaves out the coverage phase, whose size does not depend on the number of cases. The examples
# try every operation, also where chance throws both cases of one away.
PHASES = "examples,coverage,fuzzing,stateful"
SIZES: dict[str, dict[str, Any]] = {
    "full": {"cases": 100, "phases": PHASES, "runs": 200, "steps": 30, "principals": 4},
    # Those that are let in; how others are refused, the table of authorization is called for.
    "gate": {"cases": 2, "phases": "examples,fuzzing", "runs": 5, "steps": 20, "principals": 2},
}
SCOPES = "intent:read account:read control:read event:read credential:read"
RUN_SECONDS = 500
# Of what the fuzzer says, where what failed begins; how much of it is shown, and how much of that is its end, which
# has the seed. A check that failed, its request and the answer take about a thousand characters.
SECTIONS = ("= ERRORS =", "= FAILURES =")
SHOWN_MAX, SUMMARY_MAX = 40_000, 4_000
LOGS = Path("build/proof/fuzz-http-logs")


@dataclass(frozen=True, slots=True)
class Field:
    """The platform that is fuzzed, and who fuzzes it."""

    url: str
    document: dict[str, Any]
    world: dict[str, Any]
    principals: dict[str, str]


def prove(figures: Figures) -> None:
    size = SIZES[figures.size]
    with tempfile.TemporaryDirectory() as name, LoopbackIssuers() as issuers:
        folder = Path(name)
        with LocalPlatform(folder, {"OPENBELL_ISSUERS": issuers.setting}, accounts=2) as platform:
            field = asyncio.run(_prepare(platform))
            (folder / "openapi.json").write_text(_with_real_examples(field))
            with ThreadPoolExecutor(2) as workers:
                principals = list(field.principals)[: size["principals"]]
                reports = list(workers.map(lambda who: _fuzz(field, folder, who, size), principals))
            _tell(figures, field, reports)
            _model(figures, platform, field, size)


async def _prepare(platform: LocalPlatform) -> Field:
    """Three intents, two keys and six webhooks to meet, and four principals."""
    environment, seeded = platform.client_environment(), platform.seeded
    url, account = environment["OPENBELL_URL"], environment["OPENBELL_ACCOUNT"]
    async with await open_pool(platform.owner_url) as pool:
        _, weak = await a_key(pool, seeded.organization_id, permissions=frozenset())
    admin = bearer(org_id=ACME, role="admin", sub="auth|admin")
    spec = {"Limit": {"price": "1", "quantity": "1"}}
    body = {"command": {"type": "CREATE", "payload": {"symbol": "AAPL", "order_side": "BUY", "spec": spec}}}
    new_key = {"name": "to be changed", "environment": "paper", "permissions": ["intent:read"]}
    # Nobody is there; what it is about changes rarely.
    new_webhook = {"url": "https://hooks.invalid", "types": ["ACCOUNT_CHANGED"]}
    async with httpx.AsyncClient(base_url=url, headers={"x-api-key": seeded.api_key}, timeout=60) as client:
        intents = [(await client.post(f"/v1/accounts/{account}/intents", json=body)).json() for _ in range(3)]
        page = (await client.get(f"/v1/accounts/{account}/intents")).json()
        document, me = (await client.get("/openapi.json")).json(), (await client.get("/v1/me")).json()
    async with httpx.AsyncClient(base_url=url, headers={"authorization": admin}, timeout=60) as client:
        new_account = {"name": "to be changed", "broker": "paper", "environment": "paper"}
        accounts = [(await client.post("/v1/accounts", json=new_account)).json() for _ in range(8)]
        keys = [(await client.post("/v1/api-keys", json=new_key)).json() for _ in range(2)]
        webhooks = [(await client.post("/v1/webhooks", json=new_webhook)).json() for _ in range(6)]
    world = {
        "ids": {
            "account_id": [account],
            "intent_id": [intent["intent_id"] for intent in intents],
            "api_key_id": [key["id"] for key in keys],
            "webhook_id": [webhook["id"] for webhook in webhooks],
        },
        "kept_key": me["principal_id"],
        "spare_accounts": [account["id"] for account in accounts],
        "kept_accounts": [str(account_id) for account_id in platform.seeded.account_ids],
        "organization_id": str(seeded.organization_id),
        "provider": {"provider": IDENTITY_PROVIDER, "provider_id": ACME},
        "api_key": seeded.api_key,
        "cursor": page["last_cursor"],
    }
    principals = {
        "key": f"x-api-key: {seeded.api_key}",
        "admin": f"Authorization: {admin}",
        "key without permissions": f"x-api-key: {weak}",
        "service account": f"Authorization: {bearer(issuer=MACHINES, org_id=None, scope=SCOPES)}",
    }
    return Field(url, document, world, principals)


def _with_real_examples(field: Field) -> str:
    """The served document with ids that exist here in its examples: a made-up account would hide what comes after."""
    text = json.dumps(field.document)
    for name, known in field.world["ids"].items():
        text = text.replace(PATH_PARAMETERS[name][2], known[0])
    text = text.replace(str(ORGANIZATION.example), field.world["organization_id"])
    return text.replace(str(NEXT_CURSOR.example), field.world["cursor"])


def _fuzz(field: Field, folder: Path, who: str, size: dict[str, Any]) -> dict[str, Any]:
    report = folder / f"{who}.json"
    command = [
        *(
            str(Path(sys.executable).with_name("schemathesis")),
            f"--config-file={TESTS / 'support/rest/schemathesis.toml'}",
        ),
        *("run", str(folder / "openapi.json"), "--url", field.url, "--header", field.principals[who]),
        *("--checks", "all", "--max-examples", str(size["cases"]), "--phases", size["phases"]),
        *("--continue-on-failure", "--no-color"),
        *("--report", "json", "--report-json-path", str(report)),
        *(["--generation-deterministic"] if "CI" in os.environ else ["--generation-database", "none"]),
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": str(TESTS),
        "SCHEMATHESIS_HOOKS": "support.rest.fuzz_hooks",
        "FUZZ_WORLD": json.dumps(field.world),
    }
    ended = subprocess.run(
        command, cwd=folder, env=environment, timeout=RUN_SECONDS, capture_output=True, text=True, check=False
    )
    assert report.exists(), ended.stdout[-3000:] + ended.stderr[-3000:]
    told: dict[str, Any] = json.loads(report.read_text())
    if ended.returncode:
        _explain(who, ended.stdout + ended.stderr)
    return {**told, "who": who, "status": ended.returncode}


def _explain(who: str, output: str) -> None:
    """What failed, each with its request, and the seed; all that the fuzzer said is in a file."""
    LOGS.mkdir(parents=True, exist_ok=True)
    whole = LOGS / f"{who.replace(' ', '-')}.txt"
    whole.write_text(output)
    begins = [place for title in SECTIONS if (place := output.find(title)) >= 0]
    told = output[min(begins, default=0) :]
    if len(told) > SHOWN_MAX:
        told = f"{told[: SHOWN_MAX - SUMMARY_MAX]}\n[... the rest is in {whole}]\n{told[-SUMMARY_MAX:]}"
    print(f"As {who}:\n{told}", file=sys.stderr)


def _tell(figures: Figures, field: Field, reports: list[dict[str, Any]]) -> None:
    operations = sum(len(methods) for methods in field.document["paths"].values())
    figures.shown("operations of the document", operations)
    for report in reports:
        who = report["who"]
        figures.exactly(f"operations tried as {who}", report["operations"]["tested"], operations)
        figures.shown(f"requests as {who}", report["test_cases"]["generated"])
        accepted = sum(
            phase.get("accepted", 0) for phases in report["valid_rates"].values() for phase in phases.values()
        )
        figures.shown(f"valid requests accepted as {who}", accepted)
        faults = len(report["failures"]) + len(report["errors"]) + (report["status"] != 0)
        figures.exactly(f"failed checks, 5xx and schema breaks as {who}", faults, 0)


def _forget_heartbeats(client: httpx.Client, api_key: str, admin: str) -> None:
    """The fuzzer may have promised heartbeats of the key: disarm them, and lift the halt if they were missed."""
    key_id = client.get("/v1/me", headers={"x-api-key": api_key}).raise_for_status().json()["principal_id"]
    place, headers = {"scope": "KEY", "api_key_id": key_id}, {"authorization": admin}
    disarmed = client.delete("/v1/controls/heartbeats", params=place, headers=headers)
    assert disarmed.status_code in {204, 404, 409}, disarmed.text
    resumed = {"status": "ACTIVE", "reason": "the fuzzer promised heartbeats"}
    client.put("/v1/controls/switches", params=place, json=resumed, headers=headers).raise_for_status()


def _model(figures: Figures, platform: LocalPlatform, field: Field, size: dict[str, Any]) -> None:
    with httpx.Client(base_url=field.url, timeout=60) as client:
        # An account of its own: the fuzzer has set controls on the first one.
        account_id, admin = str(platform.seeded.account_ids[1]), field.principals["admin"].partition(" ")[2]
        _forget_heartbeats(client, platform.seeded.api_key, admin)
        world = World(client, account_id, platform.seeded.api_key, admin, Conformance(field.document))
        limits = settings(
            max_examples=size["runs"],
            stateful_step_count=size["steps"],
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        IntentMachine.world = world
        run_state_machine_as_test(IntentMachine, settings=limits)
    figures.at_least("sessions of the model", world.sessions, size["runs"])
    figures.shown("requests of the model", world.answers.total())
    failures = sum(count for status, count in world.answers.items() if status >= 500)
    figures.exactly("5xx in the model", failures, 0)
    figures.exactly("answers of the model that are not in the document", len(world.breaks), 0)
    figures.exactly("answers that the model did not expect", len(world.surprises), 0)
    for line in [*world.breaks[:5], *world.surprises[:5]]:
        print(line, file=sys.stderr)
