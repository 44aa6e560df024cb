"""What the login of a process cannot do, whoever has it: the database refuses."""

from uuid import UUID

import asyncpg
import pytest
from pydantic import SecretStr

from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.events.event_pruning import PruneEvents
from openbell_server.devtools.local_services import LocalServices
from openbell_server.devtools.stack import LOGINS
from openbell_server.processes.doctor.database_checks import CHECKS
from openbell_server.processes.doctor.findings import Level, look_over, open_target
from openbell_server.settings import Settings
from support.builders.tenant import Tenant, a_tenant, accept
from support.tenancy.statements import Owner

ADD_RULE = (
    "insert into control_rules (organization_id, scope, subject, code, terms, created_at, updated_at, principal_type,"
    " principal_id) values ('00000000-0000-0000-0000-000000000000', 'PLATFORM', '', 'SWITCH', 'x', now(), now(),"
    " '{}', 'y')"
)
WRITERS = (Role.TENANT, Role.EXECUTION, Role.DELIVERY)


@pytest.fixture
async def tenant(pool: Pool) -> Tenant:
    return await a_tenant(pool)


async def test_events_younger_than_seven_days_are_not_pruned_whatever_is_asked(pool: Pool, tenant: Tenant) -> None:
    await accept(pool, tenant.submission())
    with pytest.raises(asyncpg.PostgresError, match="kept for at least seven days"):
        await PruneEvents(pool, 0.0).across_organizations()
    assert await pool.fetchval("select count(*) from account_events") == 1


async def test_events_of_eight_days_ago_are_pruned(pool: Pool, tenant: Tenant) -> None:
    await accept(pool, tenant.submission())
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("alter table account_events disable trigger append_only")
        await connection.execute("update account_events set occurred_at = occurred_at - interval '8 days'")
        await connection.execute("alter table account_events enable trigger append_only")
    assert await PruneEvents(pool, 7 * 86_400.0).across_organizations() == 1


@pytest.mark.parametrize("role", WRITERS)
async def test_no_process_writes_an_audit_row_in_the_name_of_an_operator(
    login_pool: Pool, tenant: Tenant, role: Role
) -> None:
    organization_id = tenant.account.organization_id
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="violates row-level security policy"):
        async with transaction(login_pool, role, organization_id) as connection:
            await connection.execute(
                "insert into audit_log (organization_id, audit_id, principal_type, principal_id, operation, object_id,"
                " after) values ($1, gen_random_uuid(), 'OPERATOR', 'olga', 'organizations entitle', 'x', '{}')",
                organization_id,
            )


async def test_an_api_that_names_the_platform_as_its_organization_does_not_change_its_rules(
    owner: Owner, login_pool: Pool
) -> None:
    await owner.execute(ADD_RULE.format("OPERATOR"))
    for change in (
        "update control_rules set terms = null",
        "update control_rules set principal_type = 'USER', terms = null",
        ADD_RULE.format("USER").replace("SWITCH", "QTY_MAX"),
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="violates row-level security policy"):
            async with transaction(login_pool, Role.TENANT, UUID(int=0)) as connection:
                await connection.execute(change)


@pytest.mark.parametrize("role", [Role.TENANT, Role.DELIVERY, Role.OPERATOR])
async def test_only_executors_append_events_of_orders(login_pool: Pool, tenant: Tenant, role: Role) -> None:
    account = tenant.account
    for call in (
        "select append_events($1, $2, '{2}', array[null::uuid], array[null::integer], array['{}'])",
        "select append_change($1, $2, 2::smallint, '{}')",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with transaction(login_pool, role, account.organization_id) as connection:
                await connection.execute(call, account.organization_id, account.id)


async def test_no_event_is_appended_for_an_organization_that_the_transaction_does_not_name(
    pool: Pool, login_pool: Pool, tenant: Tenant
) -> None:
    other, account = await a_tenant(pool), tenant.account
    for named in (None, other.account.organization_id):
        async with transaction(login_pool, Role.EXECUTION, named) as connection:
            await connection.execute(
                "select append_events($1, $2, '{2}', array[null::uuid], array[null::integer], array['{}'])",
                account.organization_id,
                account.id,
            )
    assert await pool.fetchval("select count(*) from account_events") == 0
    assert await pool.fetchval("select max(event_no) from account_counters") == 0


async def test_a_relay_deletes_no_row_of_a_queue_that_was_not_sent(
    pool: Pool, login_pool: Pool, tenant: Tenant
) -> None:
    await accept(pool, tenant.submission())
    async with transaction(login_pool, Role.RELAY) as connection:
        assert await connection.execute("delete from intent_outbox") == "DELETE 0"
    assert await pool.fetchval("select count(*) from intent_outbox") == 1


@pytest.mark.parametrize(
    ("process", "login_of", "level", "what"),
    [
        *((process, process, Level.OK, "in no other") for process in ("api", "stream", "relay", "executor")),
        ("stream", "api", Level.WARNING, "openbell_tenant, which the stream does not need"),
        ("api", "stream", Level.PROBLEM, "may not act as openbell_accept, openbell_health, openbell_tenant"),
    ],
)
async def test_doctor_compares_a_login_with_the_roles_of_its_process(
    services: LocalServices, login_pool: Pool, process: str, login_of: str, level: Level, what: str
) -> None:
    await login_pool.fetchval("select 1")
    url = services.postgres.url("openbell_test", f"{LOGINS}_{login_of}")
    async with open_target(Settings(database_url=SecretStr(url), nats_url=services.nats.url), process) as target:
        (found,) = await look_over(target, [check for check in CHECKS if check.name == "roles"])
    assert (found.level, what in found.what) == (level, True), found


async def test_doctor_refuses_a_process_that_may_act_as_an_operator(
    services: LocalServices, owner: Owner, login_pool: Pool
) -> None:
    await login_pool.fetchval("select 1")
    url = services.postgres.url("openbell_test", f"{LOGINS}_stream")
    await owner.execute(f"grant {Role.OPERATOR} to {LOGINS}_stream")
    try:
        async with open_target(Settings(database_url=SecretStr(url), nats_url=services.nats.url), "stream") as target:
            (found,) = await look_over(target, [check for check in CHECKS if check.name == "roles"])
    finally:
        await owner.execute(f"revoke {Role.OPERATOR} from {LOGINS}_stream")
    assert (found.level, found.fix) == (Level.PROBLEM, f"Run `revoke {Role.OPERATOR} from {LOGINS}_stream`.")
