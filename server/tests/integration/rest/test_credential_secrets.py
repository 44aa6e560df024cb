"""No secret of a credential is anywhere but in the seal: not in an answer, a log, a traceback, a row."""

import traceback
from typing import Any

import pytest
from structlog.testing import capture_logs

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.access.credentials import SealedSecrets, SecretPlace, Secrets
from support.builders.tenant import Tenant
from support.rest.rest_api import RecordedSealer, RestApi, rest_api
from support.tenancy.statements import Owner

CANARY = "CANARY-7d1c9e"
KEY_ID = "PK-2026-hidden-K7Q2"
FORM = {"key_id": KEY_ID, "secret": CANARY}


class Surprised:
    """Implements Sealer: fails as no sealer should."""

    async def seal(self, place: SecretPlace, secrets: Secrets) -> SealedSecrets:
        assert dict(secrets) == FORM
        raise RuntimeError(f"cannot seal {secrets}")


def texts_of(logs: list[Any]) -> list[str]:
    """Lines as a process would write them, with the tracebacks."""
    told = []
    for line in logs:
        error = line.get("exc_info")
        told.append(repr(line) + ("".join(traceback.format_exception(error)) if error else ""))
    return told


async def calls(api: RestApi, tenant: Tenant) -> list[str]:
    """Good calls and bad ones, each with the secret somewhere in it; everything that came back."""
    path, told = f"/v1/accounts/{tenant.account.id}/credentials", []
    key = {"x-api-key": tenant.key}
    bodies: list[Any] = [
        {"fields": FORM},
        {"fields": FORM},
        {"fields": {**FORM, "secret": CANARY + "x" * 300}},
        {"fields": {**FORM, CANARY: "x"}},
        {"fields": FORM, CANARY: 1},
        {"fields": FORM, "expires_at": CANARY},
        {"fields": [CANARY]},
        CANARY,
    ]
    for body in bodies:
        answer = await api.client.put(path, json=body, headers=key)
        told.append(f"{answer.headers} {answer.text}")
    for content in (f'{{"fields": {{"secret": "{CANARY}', f'{{"{CANARY}": 1, "{CANARY}": 2}}'):
        json_type = {"content-type": "application/json"}
        answer = await api.client.put(path, content=content.encode(), headers=key | json_type)
        told.append(f"{answer.headers} {answer.text}")
    for method, below in (("GET", ""), ("DELETE", "")):
        answer = await api.client.request(method, path + below, headers=key)
        told.append(f"{answer.headers} {answer.text}")
    return told


async def test_answers_logs_and_rows_tell_nothing_of_it(pool: Pool, owner: Owner, tenant: Tenant) -> None:
    sealer = RecordedSealer()
    async with rest_api(pool, vault=sealer) as api:
        with capture_logs() as logs:
            answers = await calls(api, tenant)
    assert [secrets for _, secrets in sealer.sealed] == [FORM, FORM]
    tables = await owner.fetch(
        "select relname from pg_class where relnamespace = 'openbell'::regnamespace and relkind = 'r'"
    )
    rows = [
        row[0] for table in tables for row in await owner.fetch(f"select to_jsonb(t)::text from {table['relname']} t")
    ]
    assert len(logs) == len(answers)
    assert any("K7Q2" in row for row in rows)
    for text in (*answers, *texts_of(logs), *rows):
        assert CANARY not in text
        assert KEY_ID not in text


async def test_a_defect_of_ours_is_told_without_it(pool: Pool, tenant: Tenant) -> None:
    async with rest_api(pool, vault=Surprised()) as api:
        with capture_logs() as logs:
            answers = await calls(api, tenant)
    assert any("internal_error" in answer for answer in answers)
    assert any("cannot seal Secrets(key_id=***, secret=***)" in text for text in texts_of(logs))
    for text in (*answers, *texts_of(logs)):
        assert CANARY not in text


@pytest.mark.parametrize("text", [repr, str, "{}".format, lambda secrets: f"{[secrets]}"])
def test_secrets_show_their_names_only(text: Any) -> None:
    assert CANARY not in text(Secrets(FORM))
    assert "secret=***" in text(Secrets(FORM))


@pytest.mark.parametrize("below", [f"/{CANARY}", f"/verify/{CANARY}", f"%2F{CANARY}", f"?secret={CANARY}"])
async def test_one_that_got_into_an_address_is_neither_answered_nor_logged(
    pool: Pool, tenant: Tenant, below: str
) -> None:
    path = f"/v1/accounts/{tenant.account.id}/credentials{below}"
    async with rest_api(pool) as api:
        with capture_logs() as logs:
            answer = await api.client.get(path, headers={"x-api-key": tenant.key})
    assert CANARY not in f"{answer.headers} {answer.text} {texts_of(logs)}"
    assert logs[-1]["path"].startswith(f"/v1/accounts/{tenant.account.id}/")


async def test_one_that_got_into_the_place_of_a_symbol_or_an_id_is_not_logged(pool: Pool, tenant: Tenant) -> None:
    async with rest_api(pool) as api:
        with capture_logs() as logs:
            for path in (f"accounts/{CANARY}/credentials", f"controls/accounts/{tenant.account.id}/symbols/{CANARY}"):
                await api.client.get(f"/v1/{path}", headers={"x-api-key": tenant.key})
    assert [line["path"] for line in logs] == [
        "/v1/accounts/***/credentials",
        f"/v1/controls/accounts/{tenant.account.id}/symbols/***",
    ]


@pytest.mark.parametrize("media_type", [CANARY, f"text/{CANARY}"])
async def test_one_that_got_into_the_content_type_is_not_answered(pool: Pool, tenant: Tenant, media_type: str) -> None:
    path = f"/v1/accounts/{tenant.account.id}/credentials"
    headers = {"x-api-key": tenant.key, "content-type": media_type}
    async with rest_api(pool, vault=RecordedSealer()) as api:
        answer = await api.client.put(path, content=b"{}", headers=headers)
    assert answer.status_code == 415
    assert CANARY.lower() not in answer.text.lower()
