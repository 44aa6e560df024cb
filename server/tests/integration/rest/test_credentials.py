"""The credential of an account: what goes in, what is shown, what every change leaves behind, and who may."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.application.access import manage_credentials
from openbell_server.application.access.ports.vault import VaultError
from openbell_server.application.ports.broker import CredentialField, CredentialForm
from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import SealedSecrets, SecretPlace, Secrets
from support.brokers.paper_broker import until
from support.builders.tenant import Tenant, a_key, a_tenant
from support.identity.bearers import as_user
from support.rest.rest_api import RecordedHints, RecordedSealer, RestApi, create_body, pointers, problem, rest_api

FIELDS = {"key_id": "PK-2026-K7Q2", "secret": "correct horse battery staple"}
SHOWN = {"id", "account_id", "broker", "kind", "hint", "status", "created_at", "updated_at", "version"}
LATER = datetime.now(UTC) + timedelta(days=400)


@pytest.fixture
def sealer() -> RecordedSealer:
    return RecordedSealer()


@pytest.fixture
async def api(pool: Pool, sealer: RecordedSealer) -> AsyncIterator[RestApi]:
    async with rest_api(pool, vault=sealer) as opened:
        yield opened


@pytest.fixture
def required(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker lets nobody in without."""
    only_secret = CredentialForm(kind="token", fields=(CredentialField(name="token", title="Token", length_max=8),))
    monkeypatch.setattr(BROKERS["paper"], "credentials", only_secret)


def path_of(tenant: Tenant) -> str:
    return f"/v1/accounts/{tenant.account.id}/credentials"


async def call(api: RestApi, tenant: Tenant, method: str, below: str = "", **more: Any) -> httpx.Response:
    headers = {"x-api-key": tenant.key, **more.pop("headers", {})}
    return await api.client.request(method, path_of(tenant) + below, headers=headers, **more)


async def put(api: RestApi, tenant: Tenant, headers: dict[str, str] | None = None, **body: Any) -> httpx.Response:
    return await call(api, tenant, "PUT", json={"fields": FIELDS, **body}, headers=headers or {})


async def answer(pool: Pool, tenant: Tenant, status: str, refusal_code: str | None = None) -> None:
    """As an executor does once the broker has said it."""
    await pool.execute("update accounts set credential_status = $2 where account_id = $1", tenant.account.id, status)
    await pool.execute(
        "update credentials set answered_at = clock_timestamp(), refusal_code = $2,"
        " verified_at = case when $2::text is null then clock_timestamp() end where account_id = $1",
        tenant.account.id,
        refusal_code,
    )


async def account_row(pool: Pool, tenant: Tenant) -> tuple[Any, ...]:
    row = await pool.fetchrow(
        "select a.credential_status, a.credential_version, a.version, c.control_epoch, c.event_no"
        " from accounts a join account_counters c using (account_id) where a.account_id = $1",
        tenant.account.id,
    )
    return tuple(row or ())


async def traces(pool: Pool) -> dict[str, list[Any]]:
    """What changes leave behind: the queue, the log, the audit log, the vault."""
    queued = await pool.fetch("select event_type, payload from account_outbox order by outbox_id")
    events = await pool.fetch("select kind, body from account_events order by event_no")
    audited = await pool.fetch("select operation, before, after from audit_log order by audit_id")
    kept = await pool.fetch("select credential_id, version from vault_objects order by version")
    return {
        "queued": [(row["event_type"], json.loads(row["payload"])) for row in queued],
        "events": [(row["kind"], json.loads(row["body"])) for row in events],
        "audited": [
            (row["operation"], row["before"] and json.loads(row["before"]), json.loads(row["after"])) for row in audited
        ],
        "kept": [tuple(row) for row in kept],
    }


async def test_a_put_creates_and_shows_everything_but_the_secrets(
    api: RestApi, pool: Pool, tenant: Tenant, sealer: RecordedSealer
) -> None:
    answered = await put(api, tenant, expires_at=LATER.isoformat())
    made = answered.json()
    assert (answered.status_code, answered.headers["etag"], set(made)) == (200, '"1"', SHOWN | {"expires_at"})
    assert (made["broker"], made["kind"], made["hint"], made["status"]) == ("paper", "paper_key", "K7Q2", "UNVERIFIED")
    assert (made["account_id"], made["version"]) == (str(tenant.account.id), 1)
    assert datetime.fromisoformat(made["expires_at"]) == LATER
    shown = await call(api, tenant, "GET")
    assert (shown.status_code, shown.headers["etag"], shown.json()) == (200, '"1"', made)
    ((place, secrets),) = sealer.sealed
    assert (place.account_id, str(place.credential_id), place.version) == (tenant.account.id, made["id"], 1)
    assert secrets == FIELDS
    assert await account_row(pool, tenant) == ("UNVERIFIED", 1, 2, 2, 1)
    assert (api.hints.rows, api.hints.accounts) == (1, [tenant.account.id])


async def test_every_change_is_queued_logged_and_audited_without_a_secret(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    credential_id = (await put(api, tenant)).json()["id"]
    again = await put(api, tenant, fields={"key_id": "ab", "secret": "x"}, expires_at=LATER.isoformat())
    assert (again.json()["version"], again.json()["hint"]) == (2, "***")
    assert (await call(api, tenant, "DELETE")).status_code == 204
    problem(await call(api, tenant, "GET"), 404, "not_found")
    assert await account_row(pool, tenant) == ("NOT_REQUIRED", None, 4, 4, 3)
    left = await traces(pool)
    told = {
        "credential_id": credential_id,
        "account_id": str(tenant.account.id),
        "organization_id": str(tenant.account.organization_id),
    }
    assert left["queued"] == [
        ("credential.created", {**told, "version": 1}),
        ("credential.updated", {**told, "version": 2}),
        ("credential.deleted", {**told, "version": 2}),
    ]
    changed = {"changed": ["credential", "credential_status"], "reason": None}
    assert [kind for kind, _ in left["events"]] == [3, 3, 3]
    bodies = [body for _, body in left["events"]]
    assert bodies[0] == {**changed, "version": 2, "credential_status": "UNVERIFIED", "expires_at": None}
    assert datetime.fromisoformat(bodies[1]["expires_at"]) == LATER
    assert bodies[2] == {**changed, "version": 4, "credential_status": "NOT_REQUIRED", "expires_at": None}
    facts = {"credential_id": credential_id, "kind": "paper_key", "expires_at": None}
    first = {**facts, "hint": "K7Q2", "status": "UNVERIFIED", "version": 1}
    second = {**facts, "hint": "***", "status": "UNVERIFIED", "version": 2, "expires_at": LATER.isoformat()}
    assert left["audited"] == [
        ("credentials put", None, first),
        ("credentials put", first, second),
        ("credentials delete", second, {**second, "status": "NOT_REQUIRED"}),
    ]
    assert [version for _, version in left["kept"]] == [1, 2]


async def test_no_version_comes_twice_so_that_no_session_takes_another_credential_for_its_own(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    first = (await put(api, tenant)).json()
    await call(api, tenant, "DELETE")
    second = (await put(api, tenant)).json()
    assert second["id"] != first["id"]
    assert second["version"] > first["version"]
    assert (await account_row(pool, tenant))[:2] == ("UNVERIFIED", second["version"])


@pytest.mark.usefixtures("required")
async def test_an_account_whose_broker_asks_for_a_credential_is_left_without_one(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    made = (await put(api, tenant, fields={"token": "12345678"})).json()
    # Nothing about it may be shown.
    assert (made["kind"], made["hint"]) == ("token", "***")
    await call(api, tenant, "DELETE")
    assert (await account_row(pool, tenant))[:2] == ("MISSING", None)
    problem(await call(api, tenant, "DELETE"), 404, "not_found")


LONG = "x" * 257


@pytest.mark.parametrize(
    ("body", "pointer", "says"),
    [
        ({}, "/fields", "is missing"),
        ({"fields": "SECRET-VALUE"}, "/fields", "an object"),
        ({"fields": {}}, "/fields/key_id", "1 to 256 printable characters"),
        ({"fields": {"key_id": "SECRET-VALUE"}}, "/fields/secret", "is missing"),
        ({"fields": {**FIELDS, "secret": ""}}, "/fields/secret", "1 to 256"),
        ({"fields": {**FIELDS, "secret": LONG}}, "/fields/secret", "1 to 256"),
        ({"fields": {**FIELDS, "secret": "SECRET\nVALUE"}}, "/fields/secret", "printable"),
        ({"fields": {**FIELDS, "secret": {"SECRET-VALUE": 1}}}, "/fields/secret", "a string"),
        ({"fields": {**FIELDS, "secret": None}}, "/fields/secret", "a string"),
        ({"fields": {**FIELDS, "SECRET-VALUE": "x"}}, "/fields", "the fields are key_id, secret"),
        ({"fields": FIELDS, "SECRET-VALUE": "x"}, "", "the fields are fields, expires_at"),
        ({"fields": FIELDS, "expires_at": "SECRET-VALUE"}, "/expires_at", "RFC 3339"),
        ({"fields": FIELDS, "expires_at": "2020-01-01T00:00:00Z"}, "/expires_at", "later than now"),
        ({"fields": FIELDS, "expires_at": "0001-01-01T00:00:00+23:59"}, "/expires_at", "years 1 to 9999"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_what_is_not_the_brokers_form_is_refused_with_what_would_pass_and_never_repeated(
    api: RestApi, pool: Pool, tenant: Tenant, body: object, pointer: str, says: str
) -> None:
    refused = await call(api, tenant, "PUT", json=body)
    told = problem(refused, 422, "invalid_command")
    assert pointers(told) == [pointer]
    assert says in str(told["detail"])
    assert not any(secret in refused.text for secret in ("SECRET", "VALUE", "horse", "PK-2026", LONG[:9]))
    assert await pool.fetchval("select count(*) from credentials") == 0
    assert set(map(len, (await traces(pool)).values())) == {0}


@pytest.mark.parametrize(
    "body",
    [
        b'{"fields": {"key_id": "PK", "secret": "SECRET-VALUE"',
        b'{"fields": {"SECRET-VALUE": 1, "SECRET-VALUE": 2}}',
        b'{"SECRET-VALUE": 1, "SECRET-VALUE": 2}',
        b'{"fields": {"secret": "SECRET-VALUE\xff"}}',
        b'{"fields": {"secret": "SECRET-VALUE\\u0000"}}',
        b'{"fields": {"secret": SECRET-VALUE}}',
        b"[" * 40 + b'"SECRET-VALUE"' + b"]" * 40,
    ],
)
async def test_a_malformed_body_is_refused_without_a_word_of_it(api: RestApi, tenant: Tenant, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    refused = await call(api, tenant, "PUT", content=body, headers=headers)
    problem(refused, 400, "malformed_body")
    assert "SECRET" not in refused.text


async def test_if_match_lets_a_change_pass_only_at_the_version_that_was_read(api: RestApi, tenant: Tenant) -> None:
    problem(await put(api, tenant, {"if-match": '"1"'}), 412, "version_mismatch")
    await put(api, tenant)
    problem(await put(api, tenant, {"if-match": '"2"'}), 412, "version_mismatch")
    problem(await put(api, tenant, {"if-match": "one"}), 400, "invalid_header")
    assert (await put(api, tenant, {"if-match": '"1"'})).headers["etag"] == '"2"'
    problem(await call(api, tenant, "DELETE", headers={"if-match": '"1"'}), 412, "version_mismatch")
    assert (await call(api, tenant, "DELETE", headers={"if-match": '"2"'})).status_code == 204


async def test_of_changes_at_the_same_time_each_is_whole_or_refused(
    api: RestApi, pool: Pool, tenant: Tenant, sealer: RecordedSealer
) -> None:
    answers = await asyncio.gather(
        *(put(api, tenant, fields={"key_id": f"key-{number:04}", "secret": "s"}) for number in range(20))
    )
    saved = [answered.json() for answered in answers if answered.status_code == 200]
    for answered in answers:
        if answered.status_code != 200:
            problem(answered, 409, "concurrent_change")
    assert len(saved) >= manage_credentials.TRIES_MAX
    assert sorted(each["version"] for each in saved) == list(range(1, len(saved) + 1))
    assert len({each["id"] for each in saved}) == 1
    newest = max(saved, key=lambda each: each["version"])
    assert (await call(api, tenant, "GET")).json() == newest
    left = await traces(pool)
    assert [payload["version"] for _, payload in left["queued"]] == list(range(1, len(saved) + 1))
    assert len(left["events"]) == len(left["audited"]) == len(left["kept"]) == len(saved)
    # What is kept for a version is what was sent for it: no seal of a try that lost was written.
    by_version = {each["version"]: each["hint"] for each in saved}
    sealed = {place.version: secrets["key_id"][-4:] for place, secrets in sealer.sealed if place.version in by_version}
    assert sealed.keys() == by_version.keys()
    assert await account_row(pool, tenant) == ("UNVERIFIED", len(saved), len(saved) + 1, len(saved) + 1, len(saved))


@pytest.mark.parametrize(
    "table", ["credentials", "vault_objects", "account_outbox", "audit_log", "account_events"], ids=str
)
async def test_a_change_is_written_whole_or_not_at_all(api: RestApi, pool: Pool, tenant: Tenant, table: str) -> None:
    await put(api, tenant)
    before = await traces(pool), await account_row(pool, tenant), (await call(api, tenant, "GET")).json()
    refuse = "begin raise 'no' using errcode = '57014'; end"
    await pool.execute(f"create function refuse() returns trigger language plpgsql as $${refuse}$$")
    await pool.execute(f"create trigger refuse before insert or delete on {table} execute function refuse()")
    assert (await put(api, tenant)).status_code == 503
    if table != "vault_objects":
        assert (await call(api, tenant, "DELETE")).status_code == 503
    assert (await traces(pool), await account_row(pool, tenant), (await call(api, tenant, "GET")).json()) == before


async def test_a_command_that_was_judged_before_a_change_is_judged_again(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    """The epoch is another one, so the accept step writes nothing that was evaluated against the one before."""
    before = (await account_row(pool, tenant))[3]
    await put(api, tenant)
    await call(api, tenant, "DELETE")
    assert (await account_row(pool, tenant))[3] == before + 2
    assert (await api.submit(tenant, create_body())).status_code == 202


class Unreachable:
    """Implements Sealer: its key is out of reach."""

    async def seal(self, place: SecretPlace, secrets: Secrets) -> SealedSecrets:
        raise VaultError("no answer")


async def test_without_a_key_or_with_one_out_of_reach_nothing_is_recorded(pool: Pool, tenant: Tenant) -> None:
    async with rest_api(pool) as api:
        problem(await put(api, tenant), 503, "vault_missing")
    async with rest_api(pool, vault=Unreachable()) as api:
        problem(await put(api, tenant), 503, "vault_unavailable")
    assert await pool.fetchval("select count(*) from credentials") == 0


async def test_a_broker_without_a_form_takes_no_credential(
    api: RestApi, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BROKERS["paper"], "credentials", None)
    problem(await put(api, tenant), 422, "credentials_not_supported")
    problem(await call(api, tenant, "GET"), 404, "not_found")


async def test_a_closed_account_and_a_disabled_organization_are_read_and_not_changed(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    made = (await put(api, tenant)).json()
    changes = (("PUT", ""), ("DELETE", ""), ("POST", "/verify"))
    await pool.execute("update accounts set closed_at = now() where account_id = $1", tenant.account.id)
    for method, below in changes:
        refused = await call(api, tenant, method, below, json={"fields": FIELDS})
        problem(refused, 409, "account_closed")
    await pool.execute("update accounts set closed_at = null")
    await pool.execute("update organizations set disabled = true")
    for method, below in changes:
        problem(await call(api, tenant, method, below, json={"fields": FIELDS}), 409, "organization_disabled")
    assert (await call(api, tenant, "GET")).json() == made


async def test_a_disabled_account_takes_a_credential(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    await pool.execute("update accounts set disabled = true")
    assert (await put(api, tenant)).status_code == 200


@pytest.mark.parametrize("whose", ["another organization's", "another environment's"])
async def test_what_is_not_the_callers_is_neither_shown_nor_changed(
    api: RestApi, pool: Pool, tenant: Tenant, whose: str
) -> None:
    await put(api, tenant)
    before = await traces(pool)
    key, expected = (await a_tenant(pool)).key, (404, "not_found")
    if whose == "another environment's":
        _, key = await a_key(pool, tenant.account.organization_id, Environment.LIVE)
        expected = 403, "environment_mismatch"
    headers = {"x-api-key": key}
    for method, below in (("GET", ""), ("PUT", ""), ("DELETE", ""), ("POST", "/verify")):
        problem(await call(api, tenant, method, below, json={"fields": FIELDS}, headers=headers), *expected)
    assert await traces(pool) == before


async def test_verify_asks_an_executor_and_answers_what_the_broker_said(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    problem(await call(api, tenant, "POST", "/verify"), 404, "not_found")
    await put(api, tenant)
    for status, refusal_code in (("VALID", None), ("INVALID", "REFUSED"), ("EXPIRED", "REFUSED")):
        asked = len(api.hints.sign_ins)
        waiting = asyncio.ensure_future(call(api, tenant, "POST", "/verify"))
        await until(lambda asked=asked: _was_asked(api.hints, asked))  # type: ignore[misc]
        await answer(pool, tenant, status, refusal_code)
        answered = await waiting
        assert (answered.status_code, answered.json()["status"]) == (200, status)
        assert ("verified_at" in answered.json()) == (status == "VALID")
    assert api.hints.sign_ins == [tenant.account.id] * 3


async def _was_asked(hints: RecordedHints, before: int) -> bool:
    return len(hints.sign_ins) > before


async def test_verify_refuses_a_credential_of_another_account_at_the_broker(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    await put(api, tenant)
    waiting = asyncio.ensure_future(call(api, tenant, "POST", "/verify"))
    await until(lambda: _was_asked(api.hints, 0))
    await answer(pool, tenant, "INVALID", "EXTERNAL_ACCOUNT_MISMATCH")
    problem(await waiting, 409, "external_account_mismatch")


async def test_verify_says_when_nobody_answered_in_time_even_if_somebody_did_before(
    api: RestApi, pool: Pool, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manage_credentials, "ANSWER_SECONDS", 0.3)
    await put(api, tenant)
    await answer(pool, tenant, "VALID")
    problem(await call(api, tenant, "POST", "/verify"), 503, "verification_unanswered")


async def test_an_admin_sets_and_a_member_reads(api: RestApi, tenant: Tenant) -> None:
    admin, member = as_user(tenant), as_user(tenant, "member")
    path, body = path_of(tenant), {"fields": FIELDS}
    assert (await api.client.put(path, json=body, headers=admin)).status_code == 200
    assert (await api.client.get(path, headers=member)).status_code == 200
    problem(await api.client.put(path, json=body, headers=member), 403, "permission_denied")
