"""Who a credential belongs to, and what it may do."""

from typing import Any

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.access.authorization import Operation
from support.builders.tenant import Tenant, a_key
from support.identity.bearers import Headers, as_service, as_user, as_user_without_organization
from support.rest.rest_api import RestApi, problem

URL = "/v1/me"


async def me(api: RestApi, headers: Headers) -> Any:
    answer = await api.client.get(URL, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_key_learns_its_organization_its_permissions_and_what_it_may_do(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    principal, key = await a_key(pool, tenant.account.organization_id, permissions=frozenset({"intent:read"}))
    told = await me(api, {"x-api-key": key})
    assert (told["principal_type"], told["principal_id"], told["environment"]) == ("API_KEY", principal.id, "paper")
    assert (told["permissions"], told["own_orders_only"]) == (["intent:read"], False)
    assert told["organization"]["id"] == str(tenant.account.organization_id)
    assert (told["organization"]["disabled"], "role" in told) == (False, False)
    assert "READ_INTENTS" in told["operations"]
    assert "SUBMIT_INTENT" not in told["operations"]
    assert set(told["operations"]) < set(Operation.__members__)


async def test_a_user_learns_the_role_and_a_service_account_its_scopes(api: RestApi, tenant: Tenant) -> None:
    admin, reader = await me(api, as_user(tenant)), await me(api, as_user(tenant, "read_only"))
    assert (admin["role"], reader["role"]) == ("admin", "read_only")
    assert "EDIT_CONTROLS" in set(admin["operations"]) - set(reader["operations"])
    service = await me(api, as_service("control:read", tenant=tenant))
    assert (service["principal_type"], service["permissions"]) == ("SERVICE", ["control:read"])
    assert "organization" not in service


async def test_a_user_without_an_organization_is_told_so_and_a_stranger_nothing(api: RestApi) -> None:
    assert "organization" not in await me(api, as_user_without_organization())
    problem(await api.client.get(URL), 401, "unauthenticated")
