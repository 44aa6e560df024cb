"""Key validation: who may ask, one answer for every way a key is wrong, and no way to tell them apart by work done."""

import hmac
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.access.token_callers import PostgresTokenCallerStore
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.application.access.authenticate import Authenticate, Credential
from openbell_server.application.access.batched_key_lookup import BatchedKeyLookup
from openbell_server.domain.access import api_keys
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.api_keys import ApiKey
from openbell_server.domain.errors import Problem
from openbell_server.processes.authentication import wall_clock
from support.builders.tenant import Tenant, a_key, a_tenant
from support.identity.bearers import as_service, as_user
from support.identity.identity_provider import Verifier
from support.rest.rest_api import RestApi, limited, problem, rest_api

URL = "/api/v1/auth/api-key/validate"


async def validate(api: RestApi, text: str, headers: dict[str, str]) -> httpx.Response:
    return await api.client.post(URL, json={"api_key": text}, headers={**headers, "x-request-id": "same"})


async def unknown(pool: Pool, tenant: Tenant) -> str:
    del pool, tenant
    return api_keys.mint(Environment.PAPER, os.urandom(api_keys.ENTROPY_BYTES))[0]


async def wrong(pool: Pool, tenant: Tenant) -> str:
    """The id of a key that is there, with another secret."""
    other = await unknown(pool, tenant)
    body = "_".join([*tenant.key.split("_")[:4], other.split("_")[4]])
    return f"{body}_{api_keys._checksum(body)}"


async def revoked(pool: Pool, tenant: Tenant) -> str:
    return await _marked(pool, tenant, "revoked_at = now()")


async def expired(pool: Pool, tenant: Tenant) -> str:
    return await _marked(pool, tenant, "expires_at = now() - interval '1 second'")


async def disabled(pool: Pool, tenant: Tenant) -> str:
    return await _marked(pool, tenant, "disabled = true")


async def _marked(pool: Pool, tenant: Tenant, change: str) -> str:
    principal, text = await a_key(pool, tenant.account.organization_id)
    await pool.execute(f"update api_keys set {change} where api_key_id::text = $1", principal.id)
    return text


WRONG: dict[str, Callable[[Pool, Tenant], Awaitable[str]]] = {
    "unknown": unknown,
    "wrong": wrong,
    "revoked": revoked,
    "expired": expired,
}
MALFORMED = ["", "x", "ob_paper_", "ob_paper_0_000000000000_" + "A" * 43 + "_000000", "ключ"]


async def test_a_service_account_of_any_scope_and_the_key_itself_hear_the_same(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    created_at = await pool.fetchval("select created_at from api_keys")
    answers = [await validate(api, tenant.key, headers) for headers in (as_service(), {"x-api-key": tenant.key})]
    for answer in answers:
        assert answer.status_code == 200, answer.text
        assert answer.headers["cache-control"] == "no-store"
        assert answer.json() == {
            "id": tenant.principal.id,
            "organization_id": str(tenant.account.organization_id),
            "environment": "paper",
            "disabled": False,
            "created_at": created_at.isoformat().replace("+00:00", "Z"),
        }


async def test_a_disabled_key_is_told_to_be_disabled_also_by_itself(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    text = await disabled(pool, tenant)
    for headers in (as_service(), {"x-api-key": text}):
        answer = await validate(api, text, headers)
        assert (answer.status_code, answer.json()["disabled"]) == (200, True)


async def test_every_key_that_is_not_valid_gets_the_same_answer(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    texts = [*MALFORMED, *[await make(pool, tenant) for make in WRONG.values()]]
    answers = [await validate(api, text, as_service()) for text in texts]
    answers += [await validate(api, text, {"x-api-key": text}) for text in texts if text.isascii()]
    assert {answer.content for answer in answers} == {answers[0].content}
    for answer in answers:
        problem(answer, 401, "unauthenticated")


async def test_a_key_may_ask_about_itself_only(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    _, other = await a_key(pool, tenant.account.organization_id)
    other_organization = (await a_tenant(pool)).key
    for asked in (other, other_organization, await unknown(pool, tenant), "x"):
        problem(await validate(api, asked, {"x-api-key": tenant.key}), 403, "permission_denied")
    # Who is nobody hears nothing of anybody's key.
    problem(await validate(api, tenant.key, {"x-api-key": await unknown(pool, tenant)}), 401, "unauthenticated")


async def test_users_and_nobody_may_not_ask(api: RestApi, tenant: Tenant) -> None:
    problem(await validate(api, tenant.key, as_user(tenant)), 403, "principal_kind_not_allowed")
    problem(await validate(api, tenant.key, {}), 401, "unauthenticated")
    both = as_service() | {"x-api-key": tenant.key}
    problem(await validate(api, tenant.key, both), 400, "ambiguous_credentials")


@pytest.mark.parametrize("body", [{}, {"api_key": 1}, {"api_key": "x", "more": 1}, []], ids=str)
async def test_a_body_that_is_no_question_is_refused(api: RestApi, body: object) -> None:
    problem(await api.client.post(URL, json=body, headers=as_service()), 422, "invalid_command")


async def test_questions_are_limited_by_address_before_anything_is_looked_up(pool: Pool, tenant: Tenant) -> None:
    async with rest_api(pool, limit=limited(validations_per_second=2)) as api:
        answers = [
            await validate(api, "x", headers) for headers in ({"x-api-key": "x"}, as_service(), as_service(), {})
        ]
        assert [answer.status_code for answer in answers] == [401, 401, 429, 429]
        assert answers[-1].headers["ratelimit-limit"] == "2"
        # Other calls from there are not meant.
        assert (await api.read(tenant)).status_code == 200


@dataclass
class Work:
    """What was done for an answer."""

    looked_up: list[str] = field(default_factory=list)
    compares: int = 0


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    done = Work()
    compare, find = hmac.compare_digest, PostgresOrganizationStore.find_keys_across_organizations

    def counted(one: Any, other: Any) -> bool:
        done.compares += 1
        assert len(one) == len(other)
        return compare(one, other)

    async def looked_up(store: PostgresOrganizationStore, key_ids: list[str]) -> dict[str, ApiKey]:
        done.looked_up += key_ids
        return await find(store, key_ids)

    monkeypatch.setattr(hmac, "compare_digest", counted)
    monkeypatch.setattr(PostgresOrganizationStore, "find_keys_across_organizations", looked_up)
    return done


@pytest.mark.parametrize("state", WRONG)
async def test_no_key_that_is_not_valid_shows_by_the_work_it_makes_why(
    pool: Pool, tenant: Tenant, work: Work, state: str
) -> None:
    text = await WRONG[state](pool, tenant)
    authenticate = Authenticate(
        BatchedKeyLookup(PostgresOrganizationStore(pool).find_keys_across_organizations),
        PostgresTokenCallerStore(pool),
        Verifier().tokens,
        lambda: 0.0,
        wall_clock,
        lambda key_id: pytest.fail(f"{key_id} is not valid, so it was not used"),
    )
    with pytest.raises(Problem):
        await authenticate.find_key(text)
    assert (work.looked_up, work.compares) == ([text.split("_")[3]], 1)
    with pytest.raises(Problem):
        await authenticate(Credential(api_key=text))
    assert work.compares == 2


@pytest.mark.parametrize("text", MALFORMED, ids=ascii)
async def test_a_text_that_cannot_be_a_key_is_refused_without_asking_the_database(
    api: RestApi, work: Work, text: str
) -> None:
    problem(await validate(api, text, as_service()), 401, "unauthenticated")
    assert (work.looked_up, work.compares) == ([], 0)
